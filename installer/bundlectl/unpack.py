"""Unpack a bundle in one pass: each byte of the media is read once, checked, and written once.

Everything goes into folders whose names end in `.partial`, from which nothing is started. A
member enters the journal when its digest was right and its bytes are synced; folders get their
names when all their members have. A kill at any moment costs at most one member.
"""

import ctypes
import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from bundlectl.extract import create, extract
from bundlectl.journal import Journal, journal_path
from bundlectl.readahead import ReadAhead
from manifests import bundle, placement, tree
from manifests.digests import CHUNK, Readable
from manifests.errors import Damage, IntegrityError, from_oserror
from manifests.reader import COPY_AGAIN, BundleReader, MemberStream

Progress = Callable[[int], None]
#: What the decompressors raise where bytes are not theirs.
_UNREADABLE = (zstandard.ZstdError, gzip.BadGzipFile, zlib.error, EOFError)


def sync(folder: Path) -> None:
    """Flush everything written below a folder's file system (syncfs(2))."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)


class Unpacker:
    """Takes one bundle's members to their places below a prefix."""

    def __init__(self, prefix: Path, reader: BundleReader, progress: Progress) -> None:
        manifest = reader.manifest
        self._reader = reader
        self._progress = progress
        self.release = bundle.release_id(manifest.name, reader.digest)
        self._release_folder = prefix / placement.RELEASES / self.release
        self._model_folder = prefix / manifest.model_folder()
        self._journal_path = journal_path(prefix, reader.digest)
        self._partial_release = _partial(self._release_folder)
        self._partial_model = _partial(self._model_folder)

    def run(self, keep_model: bool) -> None:
        """Unpack what is not there yet, and name the folders.

        `keep_model` says that the model's folder exists and was found intact. Raises Damage for
        wrong bytes, FilesystemError where the disk fails; a re-run continues.
        """
        try:
            self._run(keep_model)
        except OSError as error:
            raise from_oserror(error, "unpacking the bundle") from error

    def _run(self, keep_model: bool) -> None:
        manifest = self._reader.manifest
        # The caller found it damaged, as a run leaves it that was cut off inside conda-unpack.
        _remove(self._release_folder)
        fresh = not self._partial_release.exists()
        journal = Journal(self._journal_path)
        if fresh:  # a journal without its folder says nothing
            journal.remove()
        self._partial_release.mkdir(exist_ok=True)
        if not keep_model and (fresh or not self._partial_model.exists()):
            journal.remove()
            _remove(self._partial_model)
            self._partial_model.mkdir()
        for member in manifest.members:
            if member.path in journal or (keep_model and member.role == bundle.MODEL):
                self._reader.skip(member)
            else:
                self._take(member)
                sync(self._partial_model if member.role == bundle.MODEL else self._partial_release)
                journal.add(member.path)
            self._progress(member.size)
        self._reader.finish()
        (self._partial_release / "bundle.json").write_bytes(self._reader.data)
        (self._partial_release / "bundle.json").chmod(0o644)
        sync(self._partial_release)
        if not keep_model:
            _remove(self._model_folder)
            self._partial_model.rename(self._model_folder)
        self._partial_release.rename(self._release_folder)
        sync(self._release_folder)
        journal.remove()

    def _take(self, member: bundle.Member) -> None:
        manifest = self._reader.manifest
        with self._reader.member(member) as stream:
            if member.role == bundle.ENVIRONMENT:
                target = self._partial_release / placement.ENVIRONMENT
                self._take_tree(stream, manifest.environment, target, _unzstd)
            elif member.role == bundle.RUNTIME:
                target = self._partial_release / placement.RUNTIME
                self._take_tree(stream, manifest.runtime, target, _ungzip)
            elif member.role == bundle.MODEL:
                path = member.path.removeprefix(bundle.MODEL_FOLDER)
                self._take_file(stream, self._partial_model, path)
            else:
                self._take_file(stream, self._partial_release, member.path)

    def _take_file(self, stream: MemberStream, root: Path, path: str) -> None:
        folder = root
        for part in path.split("/")[:-1]:
            folder = folder / part
            if not folder.is_dir():
                folder.mkdir()
                folder.chmod(0o755)
        target = root / path
        target.unlink(missing_ok=True)
        ahead = ReadAhead(stream)
        try:
            with create(target) as handle:
                for view in ahead.views():
                    handle.write(view)
                os.fchmod(handle.fileno(), 0o644)
        finally:
            ahead.close()

    def _take_tree(
        self,
        stream: MemberStream,
        entries: Sequence[tree.Entry],
        target: Path,
        decompress: Callable[[BinaryIO], Readable],
    ) -> None:
        _remove(target)
        target.mkdir()
        target.chmod(0o755)
        compressed = ReadAhead(stream)
        plain = ReadAhead(decompress(cast(BinaryIO, compressed)))
        try:
            extract(plain, entries, target)
        except _UNREADABLE as error:
            # The bytes are wrong, as the digest would say at the end; this is only earlier.
            raise Damage(
                stream.member.path, "an archive that can be read", str(error), mend=COPY_AGAIN
            ) from None
        finally:
            compressed.close()
            plain.close()


def _unzstd(raw: BinaryIO) -> Readable:
    return cast(Readable, zstandard.ZstdDecompressor().stream_reader(raw, read_size=CHUNK))


def _ungzip(raw: BinaryIO) -> Readable:
    return gzip.GzipFile(fileobj=raw, mode="rb")


def _partial(folder: Path) -> Path:
    return folder.with_name(folder.name + placement.PARTIAL)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        raise IntegrityError(f"{folder}: a link where a folder has to be", mend="remove it")
    if folder.exists():
        shutil.rmtree(folder)
