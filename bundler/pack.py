"""Write a conda environment as one reproducible archive, in one pass and in bounded memory.

The same environment gives the same bytes on every machine, wherever it was built: members sorted,
GNU tar without hard links, owner 0, modes 0755 and 0644, one time for all.
"""

import contextlib
import gzip
import importlib.util
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import zstandard

from bundler.packplan import Member, plan
from manifests import archive, digests
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.tree import FILE, Entry
from wheelhouse.store import Progress, silent

__all__ = ["pack", "plan", "size", "stage_runtime", "unpack", "write"]

#: zstd's own default. Level 9 takes three times as long for 8 % less.
_ZSTD_LEVEL = 3
#: Plain bytes after which a new zstd frame begins, before the next member: the installer continues
#: an interrupted run at the start of a frame. It makes the archive less than 0.1 % larger.
_FRAME = 256 << 20
#: zlib's default; only the small runtime is packed with gzip, which every host can read.
_GZIP_LEVEL = 6
#: Our own packages that the isolated host runs.
OURS = ("bundlectl", "manifests")


def pack(
    prefix: Path,
    out: BinaryIO | Path,
    *,
    compression: str,
    exclude: Iterable[str] = (),
    winning: Sequence[str] = (),
    threads: int = 0,
    progress: Progress = silent,
) -> tuple[Entry, ...]:
    """Plan and write an environment; every file with size and sha256 as packed, in archive order.

    `compression` is "zstd" or "gzip". `exclude` and
    `winning` are as for `plan`, the rest as for `write`.
    """
    try:
        members = plan(prefix, exclude=exclude, winning=winning)
    except OSError as error:
        raise from_oserror(error, "reading the environment") from error
    return write(members, out, compression=compression, threads=threads, progress=progress)


def size(members: Iterable[Member]) -> int:
    """Bytes that writing these members will report as progress."""
    return sum(member.size() for member in members)


def write(
    members: Iterable[Member],
    out: BinaryIO | Path,
    *,
    compression: str,
    threads: int = 0,
    progress: Progress = silent,
) -> tuple[Entry, ...]:
    """Write planned members. A path appears only when the archive is complete and on the disk.

    `threads` are zstd's, at least one (0: all cores); their number doesn't change the bytes.
    `progress` takes the bytes read, uncompressed.

    Raises IntegrityError where a file is not the one that its conda package published,
    FilesystemError where one can't be read or the archive can't be written.
    """
    try:
        if not isinstance(out, Path):
            return _write(members, out, compression, threads, progress)
        growing = out.with_name(f"{out.name}.part")
        try:
            with growing.open("wb") as handle:
                entries = _write(members, handle, compression, threads, progress)
                handle.flush()
                os.fsync(handle.fileno())
            growing.replace(out)
        finally:
            growing.unlink(missing_ok=True)
    except OSError as error:
        raise from_oserror(error, "packing the environment") from error
    return entries


def _write(
    members: Iterable[Member],
    raw: BinaryIO,
    compression: str,
    threads: int,
    progress: Progress,
) -> tuple[Entry, ...]:
    entries = []
    with packing(raw, compression, threads) as packed:
        for member in members:
            entry, hasher = replace(member.entry(), size=member.size()), digests.sha256()
            packed.put(entry, _bytes_of(member, entry.size, hasher, progress))
            if member.kind == FILE:
                entry = replace(entry, sha256=hasher.hexdigest())
            entries.append(entry)
    return tuple(entries)


class Packing:
    """A packed tree that grows, entry by entry."""

    def __init__(self, stream: BinaryIO, end_frame: Callable[[], object]) -> None:
        self._stream = stream
        self._end_frame = end_frame
        self._begun = 0
        self.length = 0  # plain bytes so far

    def put(self, entry: Entry, views: Iterable[memoryview]) -> None:
        """Add an entry; `views` bring its bytes, as many as it says."""
        if self.length - self._begun >= _FRAME:
            self._end_frame()
            self._begun = self.length
        header, padding = archive.entry_header(entry), archive.padding(entry.size)
        self._stream.write(header)
        for view in views:
            self._stream.write(view)
        self._stream.write(padding)
        self.length += len(header) + entry.size + len(padding)


@contextlib.contextmanager
def packing(raw: BinaryIO, compression: str, threads: int = 0) -> Iterator[Packing]:
    """Write a packed tree into `raw`; it is complete after the block. See `write`."""
    with _compressed(raw, compression, threads) as (stream, end_frame):
        packed = Packing(stream, end_frame)
        yield packed
        stream.write(archive.trailer(packed.length))


@contextlib.contextmanager
def _compressed(
    raw: BinaryIO, compression: str, threads: int
) -> Iterator[tuple[BinaryIO, Callable[[], object]]]:
    """A stream that compresses into `raw`, and what ends a frame of it, where there are frames."""
    if compression == "zstd":
        # Never 0 threads: the multi-threaded format's bytes are the same for any other number.
        workers = threads or digests.workers()
        compressor = zstandard.ZstdCompressor(
            level=_ZSTD_LEVEL, threads=workers, write_checksum=True
        )
        with compressor.stream_writer(raw, closefd=False) as stream:
            yield cast(BinaryIO, stream), lambda: stream.flush(zstandard.FLUSH_FRAME)
    elif compression == "gzip":
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as stream:
            yield cast(BinaryIO, stream), lambda: None
    else:
        raise UsageError(f"unknown compression {compression!r}", mend="use zstd or gzip")


def _bytes_of(
    member: Member, size: int, hasher: digests.Hasher, progress: Progress
) -> Iterator[memoryview]:
    """A file's bytes, hashed as they pass; none of anything else."""
    if member.kind != FILE:
        return
    count = 0
    with _opened(member) as handle:
        for view in digests.chunks(handle, size):
            hasher.update(view)
            yield view
            count += len(view)
            progress(len(view))
    if count != size or (member.sha256 and hasher.hexdigest() != member.sha256):
        raise IntegrityError(
            f"{member.path}: is not the file that its package holds",
            why=f"{count} of {size} bytes were read, with sha256 {hasher.hexdigest()}; "
            f"recorded was {member.sha256 or 'none'}",
            mend="make the environment again with an empty cache folder",
        )


def _opened(member: Member) -> io.BytesIO | io.FileIO:
    if member.data is not None:
        return io.BytesIO(member.data)
    assert member.source is not None
    return member.source.open("rb", buffering=0)


def stage_runtime(prefix: Path) -> None:
    """Copy our own packages into an environment, which becomes the bundle's small runtime.

    Raises FilesystemError where they can't be written.
    """
    try:
        (site,) = (prefix / "lib").glob("python3.*/site-packages")
        for name in OURS:
            shutil.copytree(
                _package(name), site / name, ignore=shutil.ignore_patterns("__pycache__", ".*")
            )
    except OSError as error:
        raise from_oserror(error, "staging the runtime") from error


def _package(name: str) -> Path:
    # Found, not imported: this side must not depend on the isolated side's code.
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise UsageError(f"the package {name} is not installed", mend="install vllm-bundle again")
    return Path(spec.origin).parent


def unpack(packed: Path, folder: Path) -> None:
    """Write the tree of an archive that was packed on this machine; nobody else's is taken.

    Raises OSError, and what the decompressors raise.
    """
    with contextlib.ExitStack() as stack:
        zst = packed.suffix == ".zst"
        stream: Any = stack.enter_context(unzstd(packed) if zst else packed.open("rb"))
        mode: Literal["r|", "r|gz"] = "r|" if zst else "r|gz"
        tar = stack.enter_context(tarfile.open(fileobj=stream, mode=mode))
        tar.extractall(folder, filter="data")


@contextlib.contextmanager
def unzstd(packed: Path) -> Iterator[BinaryIO]:
    """The plain bytes of a packed tree.

    Raises OSError, and IntegrityError for what zstd never wrote.
    """
    with packed.open("rb") as raw:
        decompressor = zstandard.ZstdDecompressor()
        with decompressor.stream_reader(raw, read_across_frames=True) as stream:
            try:
                yield cast(BinaryIO, stream)
            except zstandard.ZstdError as error:
                raise IntegrityError(
                    f"{packed}: was altered ({error})",
                    mend="remove it and run the same command again: it is made anew",
                ) from None
