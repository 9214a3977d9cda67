"""What is known of libraries from outside an environment: the table `libraries.toml`."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources

from manifests.records import from_data


@dataclass(frozen=True)
class Excuse:
    """Files that may lack some of what they ask for."""

    files: tuple[str, ...]  # patterns of the path with "/" before it
    reason: str
    lacks: tuple[str, ...] = ("*",)  # libraries and symbol versions


@dataclass(frozen=True)
class Generations:
    """The names by which generations of a library are told apart."""

    what: str  # "CUDA"
    generations: dict[str, tuple[str, ...]]

    def of(self, library: str) -> str:
        """The generation that a name belongs to; "" for another library."""
        found = (g for g, names in self.generations.items() if matches(library, names))
        return next(found, "")


@dataclass(frozen=True)
class Exports:
    """Symbols that only some libraries offer, and that change from release to release."""

    what: str  # "torch"
    libraries: tuple[str, ...]
    symbols: tuple[str, ...]  # prefixes


@dataclass(frozen=True)
class Libraries:
    """The table. Names and files are glob patterns."""

    host: tuple[str, ...]
    driver: tuple[str, ...]
    glibc: dict[str, str] = field(default_factory=dict)  # symbol version → release of glibc
    optional: tuple[Excuse, ...] = ()
    exclusive: tuple[Generations, ...] = ()
    exports: tuple[Exports, ...] = ()

    def excuse(self, path: str, lacking: str) -> str:
        """Why a file may go without a library or symbol version; "" where it may not."""
        for entry in self.optional:
            if matches(f"/{path}", entry.files) and matches(lacking, entry.lacks):
                return entry.reason
        return ""


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of the glob patterns fits the whole text."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


@cache
def known() -> Libraries:
    """The table that comes with the program."""
    text = (resources.files("wheelhouse.elf") / "libraries.toml").read_text("utf-8")
    return from_data(Libraries, tomllib.loads(text), "libraries.toml")
