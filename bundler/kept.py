"""Packed environments that are kept between runs, and what is kept beside them.

Everything here is checked before it is used again: records are sealed, and the archive has a quick
digest (the sha256 is the proof, and is compared when the bundle is written and read).
"""

import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bundler.layout import SERVER_LIBS
from bundler.pack import unpack
from bundler.workshop import Workshop
from manifests import tree
from manifests.console import Console
from manifests.digests import hash_file, xxh3
from manifests.errors import IntegrityError
from manifests.kernels import Inventory
from wheelhouse import elf, kernels, remember
from wheelhouse.elf import ElfInventory

T = TypeVar("T")
#: What is kept beside a packed environment, each a sealed document.
INDEX, KERNELS, ELF = "entries.json", "kernels.json", "elf.json"


@dataclass(frozen=True)
class Packed:
    """A packed environment in the cache."""

    sha256: str
    size: int
    entries: tuple[tree.Entry, ...]
    path: Path
    kernels: Inventory  # for whichever GPU is asked about
    elf: ElfInventory


@dataclass(frozen=True)
class Index:
    """What is kept beside a packed environment."""

    sha256: str
    xxh3: str  # quick to compare before the archive is taken again; the sha256 is the proof
    size: int
    entries: tuple[tree.Entry, ...]


def recall(
    place: Path, title: str, member: str, workshop: Workshop, console: Console
) -> Packed | None:
    """What was built before; None where it has to be built. What went bad is told of.

    `title` is what a person calls the environment, `member` the archive's name. What was read of
    the libraries is read again where just that is lost. Raises FilesystemError.
    """
    path = place / member
    try:
        place.lstat()
    except FileNotFoundError:
        return None
    try:
        if place.is_symlink():
            raise IntegrityError("a link lies in its place")
        index = _record(place / INDEX, Index)
        _compare(path, index)
    except (OSError, ValueError, IntegrityError) as error:
        console.say(f"  cache: the {title} went bad ({_reason(error)})")
        return None
    try:
        inventory = _record(place / KERNELS, Inventory)
        binaries = _record(place / ELF, ElfInventory)
    except (OSError, ValueError, IntegrityError) as error:
        console.say(f"  cache: what is in the {title} went bad ({_reason(error)})")
        inventory, binaries = _read_again(place, path, title, workshop, console)
    return Packed(index.sha256, index.size, index.entries, path, inventory, binaries)


def _record(path: Path, kind: type[T]) -> T:
    if path.is_symlink():
        raise IntegrityError(f"{path.name}: a link lies in its place")
    return remember.recall(path, kind)


def _compare(path: Path, index: Index) -> None:
    """Raise OSError or IntegrityError where the archive is not the one that was packed."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise IntegrityError(f"{path.name}: no regular file")
    if status.st_size != index.size:
        raise IntegrityError(f"{path.name}: {status.st_size} bytes instead of {index.size}")
    if hash_file(path, xxh3) != index.xxh3:
        raise IntegrityError(f"{path.name}: its bytes were altered")


def _reason(error: Exception) -> str:
    return error.what if isinstance(error, IntegrityError) else str(error)


def _read_again(
    place: Path, archive: Path, title: str, workshop: Workshop, console: Console
) -> tuple[Inventory, ElfInventory]:
    """Read the libraries of a packed environment whose record was lost."""
    with (
        workshop.scratch("reading") as scratch,
        console.stage(f"read the libraries of the {title}"),
    ):
        prefix = scratch / "prefix"
        unpack(archive, prefix)
        shutil.rmtree(prefix / SERVER_LIBS, ignore_errors=True)  # links that packing has made
        inventory, binaries = kernels.scan(prefix), elf.scan(prefix)
        for name, record in {KERNELS: inventory, ELF: binaries}.items():
            remember.keep(place / name, record)
    return inventory, binaries
