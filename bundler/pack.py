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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from bundler.packplan import Member, plan
from manifests import digests
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.tree import FILE, FOLDER, LINK, Entry
from wheelhouse.store import Progress, silent

__all__ = ["pack", "plan", "size", "stage_runtime", "write"]

#: zstd's own default. Level 9 takes three times as long for 8 % less.
_ZSTD_LEVEL = 3
#: zlib's default; only the small runtime is packed with gzip, which every host can read.
_GZIP_LEVEL = 6
_TYPES = {FILE: tarfile.REGTYPE, FOLDER: tarfile.DIRTYPE, LINK: tarfile.SYMTYPE}
#: Our own packages that the isolated host runs.
OURS = ("bundlectl", "manifests")


def pack(
    prefix: Path,
    out: BinaryIO | Path,
    *,
    compression: str,
    epoch: int,
    exclude: Iterable[str] = (),
    winning: Sequence[str] = (),
    threads: int = 0,
    progress: Progress = silent,
) -> tuple[Entry, ...]:
    """Plan and write an environment; every file with size and sha256 as packed, in archive order.

    `compression` is "zstd" or "gzip", `epoch` the time of every member in seconds. `exclude` and
    `winning` are as for `plan`, the rest as for `write`.
    """
    try:
        members = plan(prefix, exclude=exclude, winning=winning)
    except OSError as error:
        raise from_oserror(error, "reading the environment") from error
    return write(
        members, out, compression=compression, epoch=epoch, threads=threads, progress=progress
    )


def size(members: Iterable[Member]) -> int:
    """Bytes that writing these members will report as progress."""
    return sum(member.size() for member in members)


def write(
    members: Iterable[Member],
    out: BinaryIO | Path,
    *,
    compression: str,
    epoch: int,
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
            return _write(members, out, compression, epoch, threads, progress)
        growing = out.with_name(f"{out.name}.part")
        try:
            with growing.open("wb") as handle:
                entries = _write(members, handle, compression, epoch, threads, progress)
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
    epoch: int,
    threads: int,
    progress: Progress,
) -> tuple[Entry, ...]:
    entries = []
    with (
        _compressed(raw, compression, threads) as stream,
        tarfile.open(
            fileobj=stream,
            mode="w|",
            format=tarfile.GNU_FORMAT,
            bufsize=digests.CHUNK,
        ) as tar,
    ):
        tar.copybufsize = digests.CHUNK  # type: ignore[attr-defined]  # typeshed lacks it
        for member in members:
            entries.append(_add(tar, member, epoch, progress))
            tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every header
    return tuple(entries)


@contextlib.contextmanager
def _compressed(raw: BinaryIO, compression: str, threads: int) -> Iterator[BinaryIO]:
    if compression == "zstd":
        # Never 0 threads: the multi-threaded format's bytes are the same for any other number.
        workers = threads or digests.workers()
        compressor = zstandard.ZstdCompressor(
            level=_ZSTD_LEVEL, threads=workers, write_checksum=True
        )
        with compressor.stream_writer(raw, closefd=False) as stream:
            yield cast(BinaryIO, stream)
    elif compression == "gzip":
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as stream:
            yield cast(BinaryIO, stream)
    else:
        raise UsageError(f"unknown compression {compression!r}", mend="use zstd or gzip")


def _add(tar: tarfile.TarFile, member: Member, epoch: int, progress: Progress) -> Entry:
    entry = member.entry()
    info = tarfile.TarInfo(member.path)
    info.type, info.linkname = _TYPES[member.kind], member.target
    info.mode, info.mtime = entry.mode(), epoch
    if member.kind != FILE:
        tar.addfile(info)
        return entry
    with _opened(member) as handle:
        reader = _Reader(handle, progress)
        info.size = member.size()
        tar.addfile(info, cast(BinaryIO, reader))
    if member.sha256 and reader.hexdigest() != member.sha256:
        raise IntegrityError(
            f"{member.path}: is not the file that its conda package holds",
            why=f"sha256 is {reader.hexdigest()}, recorded was {member.sha256}",
            mend="make the environment again with an empty cache folder",
        )
    return replace(entry, size=info.size, sha256=reader.hexdigest())


def _opened(member: Member) -> BinaryIO:
    if member.data is not None:
        return io.BytesIO(member.data)
    assert member.source is not None
    return member.source.open("rb", buffering=0)


class _Reader(digests.HashingReader):
    """Tells how much passed through."""

    def __init__(self, raw: BinaryIO, progress: Progress) -> None:
        super().__init__(raw)
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        self._progress(len(data))
        return data


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
