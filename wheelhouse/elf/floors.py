"""Symbol versions that are numbered, and the highest that files ask for."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wheelhouse.elf.inventory import ElfFile

#: Families whose numbers grow with every release of glibc and GCC.
FAMILIES = ("GLIBC", "GLIBCXX", "CXXABI", "GCC")
_VERSION = re.compile(rf"({'|'.join(FAMILIES)})_(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Floor:
    """The highest version of a family that is asked for, and by which files."""

    family: str  # "GLIBC"
    version: str  # "2.32"
    paths: tuple[str, ...]


def is_version(text: str) -> bool:
    """Whether a text is a version as glibc has them, "2.31"."""
    return re.fullmatch(r"\d+\.\d+(\.\d+)*", text, re.ASCII) is not None


def numbers(version: str) -> tuple[int, ...]:
    """A dotted version, to be compared."""
    return tuple(map(int, version.split(".")))


def split(symbol_version: str, named: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """Family and number of a symbol version; None for one without.

    `named` gives releases of glibc for its versions that have a name instead.
    """
    if named and symbol_version in named:
        return "GLIBC", named[symbol_version]
    match = _VERSION.fullmatch(symbol_version)
    return (match[1], match[2]) if match else None


def floors(files: Iterable[ElfFile], named: Mapping[str, str] | None = None) -> tuple[Floor, ...]:
    """The highest version of each family, in the order of FAMILIES; families unused are absent."""
    highest: dict[str, str] = {}
    causes: dict[str, list[str]] = {}
    for file in files:
        for family, version in filter(None, (split(text, named) for text in file.wanted)):
            known = highest.get(family)
            if known is None or numbers(version) > numbers(known):
                highest[family], causes[family] = version, []
            if highest[family] == version and file.path not in causes[family][-1:]:
                causes[family].append(file.path)
    return tuple(
        Floor(family, highest[family], tuple(causes[family]))
        for family in FAMILIES
        if family in highest
    )
