"""What is compared with a database of Python's vulnerabilities, and what of a bundle is not."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from manifests.lock import Lock
from manifests.vulns_match import Package
from manifests.vulns_versions import key

#: Where a package lies, and of which kind it is.
ENVIRONMENT, RUNTIME, PROVIDED = "environment", "runtime", "provided"
WHEEL, CONDA = "wheel", "conda"
#: A wheel whose version is not one of PEP 440, so that nothing can be compared.
VERSION = "version"
#: conda-forge's build strings name the Python of packages that are for one: py312h7e1b2d3_0,
#: cuda128py311h…, pyhd8ed1ab_0 (https://docs.conda.io/projects/conda-build/en/stable/resources/
#: define-metadata.html, "Build number and string").
_PYTHON_BUILD = re.compile(r"py(?:\d|h)")


@dataclass(frozen=True)
class Item:
    """A package in a bundle."""

    kind: str  # WHEEL or CONDA
    name: str
    version: str
    place: str  # ENVIRONMENT, RUNTIME or PROVIDED
    filename: str = ""


@dataclass(frozen=True)
class Unseen:
    """Something of which no database of Python's vulnerabilities tells."""

    kind: str  # CONDA, VERSION, or as manifests.vulns_judge has it
    name: str
    version: str = ""


@dataclass(frozen=True)
class Contents:
    """What a bundle holds."""

    name: str  # of the bundle
    lock_sha256: str
    items: tuple[Item, ...]


def of_lock(name: str, lock: Lock, digest: str) -> Contents:
    """What a bundle of that name holds by its lock, whose digest is given."""
    return Contents(name, digest, tuple(_items(lock)))


def _items(lock: Lock) -> Iterator[Item]:
    for place, wheels in ((ENVIRONMENT, lock.wheels), (RUNTIME, lock.runtime_wheels)):
        for wheel in wheels:
            yield Item(WHEEL, wheel.name, wheel.version, place, wheel.filename)
    for build in lock.builds:
        yield Item(WHEEL, build.name, f"{build.version}+{build.label}", ENVIRONMENT)
    for place, packages in ((ENVIRONMENT, lock.conda), (RUNTIME, lock.runtime_conda)):
        for package in packages:
            filename = package.url.rpartition("/")[2]
            yield Item(CONDA, package.name, package.version, place, filename)
    for one in lock.overlay.provided if lock.overlay is not None else ():
        yield Item(WHEEL, one.name, one.version, PROVIDED)


def sort_out(items: Iterable[Item]) -> tuple[tuple[Package, ...], tuple[Unseen, ...]]:
    """The Python packages, each name and version once; and what else there is. Both sorted."""
    places: dict[tuple[str, str], set[str]] = {}
    unseen = set()
    for item in items:
        name = normalised(item.name)
        if item.kind == CONDA and not _is_python(item.filename):
            unseen.add((CONDA, item.name, item.version))
        elif key(item.version) is None:
            unseen.add((VERSION, name, item.version))
        else:
            places.setdefault((name, item.version), set()).add(item.place)
    packages = tuple(Package(*one, tuple(sorted(places[one]))) for one in sorted(places))
    return packages, tuple(Unseen(*one) for one in sorted(unseen))


def normalised(name: str) -> str:
    """A name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_python(filename: str) -> bool:
    """Whether a conda package is a Python package, by its build string: NAME-VERSION-BUILD.EXT."""
    stem = filename.removesuffix(".conda").removesuffix(".tar.bz2")
    return _PYTHON_BUILD.search(stem.rpartition("-")[2]) is not None
