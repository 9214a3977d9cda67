"""The files of a place that may hold GPU code: a folder, a wheel, a bundle, or one file."""

import mmap
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from manifests import sums, tree
from manifests.console import Progress, ignore_progress
from wheelhouse.kernels.sections import Buffer
from wheelhouse.members import Member, members, room

#: First bytes of a zip file, which a wheel is (PKWARE's APPNOTE 4.3.7).
_ZIP = b"PK\x03\x04"
#: Text, by its name: an environment has tens of thousands of these, and none is worth opening.
_TEXT = frozenset(
    (
        *("c", "cc", "cpp", "cu", "cuh", "h", "hpp", "pxd", "pyc", "pyi", "pyx"),
        *("cfg", "css", "csv", "html", "ipynb", "jinja", "js", "json", "md", "rst", "svg"),
        *("toml", "txt", "typed", "xml", "yaml", "yml"),
    )
)
#: Shorter than any header.
_LEAST = 16  # bytes


@dataclass(frozen=True)
class Piece:
    """A file of a place."""

    path: str  # below the place, with "/"; the name alone where the place is one file
    size: int  # bytes that it takes in the place
    content: Callable[[], AbstractContextManager[Buffer]]
    detached: bool = True  # whether `content` works in any thread, after the next piece too


@contextmanager
def opened(place: Path, progress: Progress = ignore_progress) -> Iterator[Iterator[Piece]]:
    """The files worth opening, in a stable order; their contents are to be had inside the block.

    `progress` hears of a bundle's bytes only, which are read on the way. Raises OSError,
    zipfile.BadZipFile, and what `wheelhouse.members` raises for a damaged bundle.
    """
    if place.is_dir():
        bundled = (place / sums.FILE_NAME).is_file()
        yield _bundle(place, progress) if bundled else _folder(place)
        return
    with place.open("rb") as handle:
        packed = handle.read(len(_ZIP)) == _ZIP
    if packed:
        with zipfile.ZipFile(place) as wheel:
            yield _wheel(wheel)
    else:
        yield iter([Piece(place.name, place.stat().st_size, partial(_mapped, place))])


def _worth(path: str, size: int) -> bool:
    return size >= _LEAST and path.rpartition(".")[2] not in _TEXT


def _folder(place: Path) -> Iterator[Piece]:
    for path, entry in tree.walk(place):
        if entry.is_file(follow_symlinks=False):
            size = entry.stat().st_size
            if _worth(path, size):
                yield Piece(path, size, partial(_mapped, Path(entry.path)))


@contextmanager
def _mapped(file: Path) -> Iterator[Buffer]:
    with file.open("rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        if not size:  # can't be mapped
            yield b""
            return
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield view


def _wheel(wheel: zipfile.ZipFile) -> Iterator[Piece]:
    for info in wheel.infolist():
        if not info.is_dir() and _worth(info.filename, info.file_size):
            yield Piece(info.filename, info.compress_size, partial(_inflated, wheel, info))


@contextmanager
def _inflated(wheel: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[Buffer]:
    with wheel.open(info) as stream, room(info.file_size) as space:
        shutil.copyfileobj(stream, cast(BinaryIO, space), 1 << 20)
        yield space


def _bundle(place: Path, progress: Progress) -> Iterator[Piece]:
    for member in members(place, magic=b"", progress=progress):
        if member.source is not None and _worth(member.path, member.size):
            yield Piece(member.path, 0, partial(_streamed, member), detached=False)


def _streamed(member: Member) -> AbstractContextManager[Buffer]:
    return member.content() if member.size else nullcontext(b"")
