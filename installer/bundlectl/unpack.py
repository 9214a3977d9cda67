"""Unpack a bundle in one pass: each byte of the media is read once, checked, and written once.

Everything goes into folders whose names end in `.partial`, from which nothing is started. A
member enters the journal when its digest was right and its bytes are synced; folders get their
names when all their members have. A kill at any moment costs at most one member.
"""

import ctypes
import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from bundlectl.journal import Journal, journal_path
from bundlectl.readahead import ReadAhead
from manifests import bundle, placement, tree
from manifests.digests import Readable, chunks, sha256
from manifests.errors import Damage, IntegrityError, from_oserror
from manifests.reader import COPY_AGAIN, BundleReader, MemberStream

Progress = Callable[[int], None]
#: What the readers of the standard library and zstandard raise where bytes are not an archive.
_UNREADABLE = (
    tarfile.TarError,
    zstandard.ZstdError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    OverflowError,
)


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

    def run(self, keep_model: bool, check: Callable[[], None]) -> None:
        """Unpack what is not there yet, and name the folders.

        `keep_model` says that the model's folder exists and was found intact; `check` has the last
        word before anything gets its name. Raises Damage for wrong bytes, FilesystemError where
        the disk fails; a re-run continues.
        """
        try:
            self._run(keep_model, check)
        except OSError as error:
            raise from_oserror(error, "unpacking the bundle") from error

    def _run(self, keep_model: bool, check: Callable[[], None]) -> None:
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
        check()
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
            with _create(target) as handle:
                while chunk := ahead.next_chunk():
                    handle.write(chunk)
                os.fchmod(handle.fileno(), 0o644)
        finally:
            ahead.close()

    def _take_tree(
        self,
        stream: MemberStream,
        entries: Sequence[tree.Entry],
        target: Path,
        decompress: Callable[[BinaryIO], BinaryIO],
    ) -> None:
        _remove(target)
        target.mkdir()
        target.chmod(0o755)
        ahead = ReadAhead(stream)
        try:
            with tarfile.open(
                fileobj=decompress(cast(BinaryIO, ahead)), mode="r|", bufsize=1 << 20
            ) as inner:
                extract(inner, entries, target)
        except _UNREADABLE as error:
            # The bytes are wrong, as the digest would say at the end; this is only earlier.
            raise Damage(
                stream.member.path, "an archive that can be read", str(error), mend=COPY_AGAIN
            ) from None
        finally:
            ahead.close()


def _unzstd(raw: BinaryIO) -> BinaryIO:
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_size=1 << 20)
    return cast(BinaryIO, reader)


def _ungzip(raw: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))


def extract(inner: tarfile.TarFile, entries: Sequence[tree.Entry], target: Path) -> None:
    """Write the entries of a tree, which the archive has to hold in exactly that order.

    Raises Damage naming the first entry that differs; nothing unexpected is ever written.
    """
    members = iter(inner)
    for entry in entries:
        info = next(members, None)
        if info is None:
            raise Damage(entry.path, "a member of the archive", "the end", mend=COPY_AGAIN)
        _check_member(info, entry)
        path = target / entry.path
        if entry.kind == tree.FOLDER:
            path.mkdir()
            path.chmod(entry.mode())
        elif entry.kind == tree.LINK:
            path.symlink_to(entry.target)
        else:
            data = inner.extractfile(info)
            assert data is not None  # _check_member saw a regular file
            _write(cast(Readable, data), entry, path)
    surplus = next(members, None)
    if surplus is not None:
        raise Damage(surplus.name, "the end of the archive", "another member", mend=COPY_AGAIN)


def _check_member(info: tarfile.TarInfo, entry: tree.Entry) -> None:
    kinds = {tarfile.REGTYPE: tree.FILE, tarfile.DIRTYPE: tree.FOLDER, tarfile.SYMTYPE: tree.LINK}
    found = (info.name, kinds.get(info.type), info.size, info.linkname)
    if found != (entry.path, entry.kind, entry.size, entry.target):
        expected = f"a {entry.kind} of {entry.size} bytes"
        raise Damage(entry.path, expected, f"the member {info.name}", mend=COPY_AGAIN)


def _write(data: Readable, entry: tree.Entry, path: Path) -> None:
    hasher = sha256()
    with _create(path) as handle:
        for view in chunks(data, entry.size):
            hasher.update(view)
            handle.write(view)
        os.fchmod(handle.fileno(), entry.mode())
    if hasher.hexdigest() != entry.sha256:
        raise Damage(entry.path, entry.sha256, hasher.hexdigest(), mend=COPY_AGAIN)


def _create(path: Path) -> BinaryIO:
    """A new file, never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return cast(BinaryIO, os.fdopen(os.open(path, flags, 0o600), "wb"))


def _partial(folder: Path) -> Path:
    return folder.with_name(folder.name + placement.PARTIAL)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        raise IntegrityError(f"{folder}: a link where a folder has to be", mend="remove it")
    if folder.exists():
        shutil.rmtree(folder)
