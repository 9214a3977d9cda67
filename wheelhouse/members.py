"""The binary files of anything that holds some, looked at without unpacking it to the disk.

A place is one file, a folder (an environment, an unpacked tree), a wheel, or a bundle's folder, of
which the serving environment is read and checked against the manifest on the way. What a place is
follows from its first bytes, not from its name.
"""

import mmap
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from manifests import archive, bundle, sums, tree
from manifests.console import Progress, ignore_progress
from manifests.digests import CHUNK
from manifests.errors import Damage, IntegrityError, UsageError, from_oserror
from manifests.medium import ArchiveStream, Medium
from manifests.reader import COPY_AGAIN, BundleReader, MemberStream

#: First bytes of an ELF file (System V gABI, "ELF Identification").
ELF = b"\x7fELF"
#: First bytes of a zip file, which a wheel is (PKWARE's APPNOTE 4.3.7).
_ZIP = b"PK\x03\x04"
#: Inflated files up to this size stay in memory; larger ones go through a nameless file.
_IN_MEMORY = 512 << 20  # bytes


@dataclass(frozen=True)
class Member:
    """A binary file or a symbolic link in a place."""

    path: str  # below the place, with "/"; the name alone where the place is one file
    size: int = 0  # bytes; files only
    target: str = ""  # links only
    file: Path | None = None  # where it lies on the disk as it is; None inside an archive
    source: Callable[[], AbstractContextManager[mmap.mmap]] | None = None  # None for links

    def content(self) -> AbstractContextManager[mmap.mmap]:
        """The bytes, as a map that is gone after the `with` block; release views of it before.

        A member without `file` can be opened once, and only until the next member is asked for.
        Raises FilesystemError where it can't be read, IntegrityError where an archive is damaged.
        """
        assert self.source is not None, "links have no content"
        return self.source()


def members(
    place: Path, *, magic: bytes = ELF, progress: Progress = ignore_progress
) -> Iterator[Member]:
    """Files of a place that start with `magic`, and all symbolic links, in a stable order.

    `progress` hears of the bytes passed over, as they lie in the place (packed or not); `size_of`
    says how many there will be. Raises UsageError for a place of another kind, FilesystemError
    where it can't be read, IntegrityError where it is damaged.
    """
    with _told(place):
        yield from _kind(place, magic)(place, magic, progress)


def size_of(place: Path) -> int:
    """Bytes that `members` will report as progress; 0 where the place does not exist.

    Raises FilesystemError where it can't be read, IntegrityError where it is a damaged bundle.
    """
    with _told(place):
        if not place.is_dir():
            return place.stat().st_size if place.is_file() else 0
        if _is_bundle(place):
            with closing(ArchiveStream(Medium(place))) as stream:
                manifest = BundleReader(stream).manifest
            return sum(member.size for member in manifest.of_role(bundle.ENVIRONMENT))
        return sum(entry.stat().st_size for entry, _ in _walk(place) if _is_file(entry))


#: RuntimeError: zipfile's word for encrypted members, and for methods and versions it has not.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    UnicodeDecodeError,
    zstandard.ZstdError,
)


@contextmanager
def _told(place: Path) -> Iterator[None]:
    """What can go wrong with a place, as errors that name it."""
    try:
        yield
    except OSError as error:
        raise from_oserror(error, f"reading {place}", error.filename or place) from error
    except _DAMAGE as error:
        raise IntegrityError(
            f"{place}: damaged ({error})", mend="fetch or copy it again, and compare its digest"
        ) from error


def _kind(place: Path, magic: bytes) -> Callable[[Path, bytes, Progress], Iterator[Member]]:
    if place.is_dir():
        return _bundle if _is_bundle(place) else _folder
    if not place.is_file():
        raise _unknown(place, "no such file or folder")
    with place.open("rb") as handle:
        start = handle.read(max(len(_ZIP), len(magic)))
    if start.startswith(magic):
        return _file
    if start.startswith(_ZIP):
        return _wheel
    raise _unknown(place, "neither a binary, a wheel nor a folder")


def _unknown(place: Path, why: str) -> UsageError:
    mend = "name a .so, a .whl, an environment's folder or a bundle's folder"
    return UsageError(f"{place}: {why}", mend=mend)


def _is_bundle(folder: Path) -> bool:
    return (folder / sums.FILE_NAME).is_file()


# On the disk


def _file(place: Path, _magic: bytes, progress: Progress) -> Iterator[Member]:
    yield _on_disk(place.name, place)
    progress(place.stat().st_size)


def _folder(place: Path, magic: bytes, progress: Progress) -> Iterator[Member]:
    for entry, path in _walk(place):
        if entry.is_symlink():
            yield Member(path, target=str(Path(entry.path).readlink()))
        elif _is_file(entry):
            if _starts(entry.path, magic):
                yield _on_disk(path, Path(entry.path))
            progress(entry.stat().st_size)


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _starts(path: str, magic: bytes) -> bool:
    # An environment has 70,000 files: a file object for each would take three times as long.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, len(magic)) == magic
    finally:
        os.close(descriptor)


def _walk(folder: Path) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Everything below but folders, with its path below; a folder at a time, names sorted."""
    waiting = [(str(folder), "")]
    while waiting:
        here, prefix = waiting.pop()
        with os.scandir(here) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, f"{path}/"))
            else:
                yield entry, path


def _on_disk(path: str, file: Path) -> Member:
    @contextmanager
    def mapped() -> Iterator[mmap.mmap]:
        with _told(file), file.open("rb") as handle:
            view = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        with view:
            yield view

    return Member(path, file.stat().st_size, file=file, source=mapped)


# In an archive


class _Flow:
    """A stream that only goes forwards, and knows where it is."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._scrap = memoryview(bytearray(CHUNK))
        self.position = 0  # bytes

    def fill(self, view: memoryview) -> None:
        """Fill the whole view. Raises EOFError where the stream ends first."""
        done = 0
        while done < len(view):
            with view[done:] as rest:  # an error must not keep it: its map could not be closed
                count = self._raw.readinto(rest)
            if not count:
                raise EOFError(f"the data end after {self.position} bytes")
            self.position += count
            done += count

    def take(self, size: int) -> bytes:
        """The next bytes, exactly so many."""
        buffer = bytearray(size)
        self.fill(memoryview(buffer))
        return bytes(buffer)

    def skip_to(self, position: int) -> None:
        """Read on until there."""
        while self.position < position:
            self.fill(self._scrap[: position - self.position])


def _wheel(place: Path, magic: bytes, progress: Progress) -> Iterator[Member]:
    with zipfile.ZipFile(place) as wheel:
        for info in wheel.infolist():
            if info.file_size >= len(magic) and not info.is_dir():
                with wheel.open(info) as raw:
                    flow = _Flow(raw)
                    start = flow.take(len(magic))
                    if start == magic:
                        yield _inflated(place, info.filename, info.file_size, start, flow)
            progress(info.compress_size)


def _bundle(place: Path, magic: bytes, progress: Progress) -> Iterator[Member]:
    with closing(ArchiveStream(Medium(place))) as stream:
        reader = BundleReader(stream)
        for member in reader.manifest.members:
            if member.role != bundle.ENVIRONMENT:
                reader.skip(member)
                continue
            with reader.member(member) as packed:
                source = cast(IO[bytes], _Watched(packed, progress))
                inflate = zstandard.ZstdDecompressor().stream_reader(
                    source, read_size=CHUNK, read_across_frames=True
                )
                flow = _Flow(inflate)
                yield from _environment(place, reader.manifest.packed, flow, magic)
            return


class _Watched:
    """A bundle's member as zstandard reads it."""

    def __init__(self, stream: MemberStream, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._progress(len(data))
        return data


def _environment(
    place: Path, entries: tuple[tree.Entry, ...], flow: _Flow, magic: bytes
) -> Iterator[Member]:
    """The packed environment's members; headers must be what the manifest's listing makes."""
    for entry in entries:
        header = archive.entry_header(entry)
        if flow.take(len(header)) != header:
            raise Damage(entry.path, "the header of a listed entry", "another", mend=COPY_AGAIN)
        end = flow.position + entry.size
        if entry.kind == tree.LINK:
            yield Member(entry.path, target=entry.target)
        elif entry.size >= len(magic):
            start = flow.take(len(magic))
            if start == magic:
                yield _inflated(place, entry.path, entry.size, start, flow)
        flow.skip_to(end + -entry.size % archive.BLOCK)


def _inflated(place: Path, path: str, size: int, start: bytes, flow: _Flow) -> Member:
    @contextmanager
    def inflated() -> Iterator[mmap.mmap]:
        with room(size) as space:
            space[: len(start)] = start
            with _told(place), memoryview(space) as whole, whole[len(start) :] as rest:
                flow.fill(rest)
            yield space

    return Member(path, size, source=inflated)


@contextmanager
def room(size: int) -> Iterator[mmap.mmap]:
    """Bytes to write into and to read from; where they are many, in a nameless file."""
    if size <= _IN_MEMORY:
        with mmap.mmap(-1, size) as space:
            yield space
        return
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size) as space:
            yield space
