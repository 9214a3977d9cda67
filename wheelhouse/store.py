"""A content-addressed store: every object is a file named by the sha256 of its bytes.

Objects appear only complete: they grow as a partial file that is named by the digest it is meant to
have, are hashed on the way in, flushed to the disk and renamed. A partial that a kill left behind
is continued by the next run. Several processes may share one store.

What lies in the place of an object and is not it (bytes that changed, a part, a link, a folder, a
file that can't be read) is told of and removed, so that just that one is had again.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from manifests import digests
from manifests.errors import FilesystemError, IntegrityError, from_oserror

Progress = Callable[[int], None]
#: Hears a sentence about an object that went bad.
Tell = Callable[[str], None]
#: Given a sha256, has that object in the store again; False where it knows no way.
Refetch = Callable[[str], bool]


def tell_nobody(_sentence: str) -> None:
    """A listener who does not listen."""


def no_way(_sha256: str) -> bool:
    """For stores whose objects only another run can fetch."""
    return False


def silent(count: int) -> None:
    """A progress callback that shows nothing."""


class Partial:
    """An object on its way into the store; `size` bytes of it are there."""

    def __init__(self, handle: FileIO, sha256: str) -> None:
        self._handle = handle
        self._sha256 = sha256
        self._hasher = digests.sha256()
        self.size = 0
        for view in digests.chunks(handle):
            self._hasher.update(view)
            self.size += len(view)

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes and hash them."""
        self._handle.write(data)
        self._hasher.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Throw away what is there."""
        self._handle.seek(0)
        self._handle.truncate()
        self._hasher = digests.sha256()
        self.size = 0

    def hexdigest(self) -> str:
        """sha256 of the bytes so far."""
        return self._hasher.hexdigest()

    def matches(self) -> bool:
        """Whether the bytes so far are the object."""
        return self.hexdigest() == self._sha256


class Store:
    """Objects below one folder, which is made on first use."""

    def __init__(self, root: Path, tell: Tell = tell_nobody, refetch: Refetch = no_way) -> None:
        """`refetch` is asked for objects that are found bad when they are used."""
        self.root = root.absolute()
        self._tell = tell
        self._refetch = refetch

    def path(self, sha256: str) -> Path:
        """Where an object lies, or would lie."""
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Whether an object is there; says nothing about its bytes (see `verified`)."""
        return _kind(self.path(sha256)) == stat.S_IFREG

    def usable(self, sha256: str, name: str, size: int = 0) -> bool:
        """Whether an object is there, by what can be seen without reading it.

        `name` is what a person calls it, `size` its bytes where they are known. What lies in its
        place and is not it is told of and removed. Raises FilesystemError where it can't be.
        """
        fault = self._look(self.path(sha256), size)
        if fault:
            self._discard(sha256, name, fault)
        return not fault and self.has(sha256)

    def _look(self, path: Path, size: int) -> str:
        """What is wrong at a glance; empty also where nothing is there."""
        kind = _kind(path)
        if kind == stat.S_IFREG:
            if not os.access(path, os.R_OK):
                return "it can't be read"
            found = path.stat().st_size
            return f"{found} bytes instead of {size}" if size and found != size else ""
        return f"{_KINDS.get(kind, 'no file')} lies in its place" if kind else ""

    def _discard(self, sha256: str, name: str, fault: str) -> None:
        path = self.path(sha256)
        try:
            _remove(path)
        except OSError as error:
            raise from_oserror(error, f"removing a bad copy of {name}", path) from error
        self._tell(f"  cache: {name} went bad ({fault}) and was removed")

    @contextmanager
    def partial(self, sha256: str, name: str) -> Iterator[Partial | None]:
        """An object to be filled; None where another process finished it while we waited.

        `name` is what a person calls the object. On leaving normally the bytes have to match, or
        they are thrown away; after an exception they are kept and continued next time.

        Raises IntegrityError where they don't match, FilesystemError where they can't be written.
        """
        final = self.path(sha256)
        growing = final.with_name(f"{sha256}.partial")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            with _locked(growing) as handle:
                if self.has(sha256):
                    growing.unlink()
                    yield None
                    return
                handle.seek(0)
                partial = Partial(handle, sha256)
                yield partial
                self._keep(partial, handle, growing, final, name)
        except OSError as error:
            raise from_oserror(error, f"storing {name}", final) from error

    def _keep(
        self, partial: Partial, handle: FileIO, growing: Path, final: Path, name: str
    ) -> None:
        if not partial.matches():
            growing.unlink()
            raise IntegrityError(
                f"{name}: sha256 is {partial.hexdigest()}, expected {final.name}",
                why="the source's bytes are not the ones that were pinned",
                mend="run the command again; if it repeats, the source was altered",
            )
        _publish(handle, growing, final)

    def adopt(self, source: digests.Readable, progress: Progress = silent) -> str:
        """Copy a stream of unknown digest into the store; its sha256.

        Raises FilesystemError where it can't be written.
        """
        hasher = digests.sha256()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.root, prefix="adopt-", delete=False) as temporary:
                growing = Path(temporary.name)
                try:
                    for view in digests.chunks(source):
                        hasher.update(view)
                        temporary.write(view)
                        progress(len(view))
                    final = self.path(hasher.hexdigest())
                    final.parent.mkdir(exist_ok=True)
                    temporary.flush()
                    _publish(temporary, growing, final)
                finally:
                    with suppress(FileNotFoundError):
                        growing.unlink()
        except OSError as error:
            raise from_oserror(error, "copying into the store") from error
        return hasher.hexdigest()

    def intact(self, sha256: str, name: str, progress: Progress = silent) -> bool:
        """Whether an object is there and its bytes, hashed just now, are right.

        One that went bad is told of and removed, and its bytes are taken back from `progress`.
        Raises FilesystemError where it can't be removed.
        """
        if not self.usable(sha256, name):
            return False
        done = 0

        def count(size: int) -> None:
            nonlocal done
            done += size
            progress(size)

        fault = _compare(self.path(sha256), sha256, count)
        if fault:
            progress(-done)
            self._discard(sha256, name, fault)
        return not fault

    def verified(self, sha256: str, name: str, progress: Progress = silent) -> Path:
        """The path of an object whose bytes were hashed just now.

        An object that went bad, or is gone, is fetched again where that is possible here. Raises
        what `refetch` raises; IntegrityError naming it where it is not possible, and the bad copy
        is removed for the next run; FilesystemError where it isn't there at all.
        """
        self.heal(sha256, name, progress)
        return self.path(sha256)

    def heal(self, sha256: str, name: str, progress: Progress = silent) -> bool:
        """Whether an object had to be fetched again; afterwards it is there, and right.

        Raises as `verified` does.
        """
        path = self.path(sha256)
        was_there = _kind(path) != 0
        if self.intact(sha256, name, progress):
            return False
        if self._refetch(sha256) and self.intact(sha256, name):
            return True
        if was_there:
            raise IntegrityError(
                f"{name}: its copy in the store went bad",
                why=f"the file {path} was altered, or the disk is failing",
                mend="the bad copy is removed: run the command again to fetch just that one",
            )
        raise FilesystemError(
            f"{name} is no longer in the store ({path})",
            mend="run the command again: it is fetched anew",
        )


_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


def _kind(path: Path) -> int:
    """The kind of what lies there, links not followed; 0 for nothing."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _remove(path: Path) -> None:
    if _kind(path) == stat.S_IFDIR:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_way(path: Path) -> None:
    """Remove what a rename would not replace, or an open would follow."""
    if _kind(path) not in (0, stat.S_IFREG):
        _remove(path)


def _compare(path: Path, sha256: str, progress: Progress) -> str:
    """How the bytes differ; empty where they don't."""
    hasher = digests.sha256()
    try:
        with path.open("rb", buffering=0) as handle:
            for view in digests.chunks(handle):
                hasher.update(view)
                progress(len(view))
    except OSError as error:  # a failing disk: other blocks may do
        return error.strerror or str(error)
    found = hasher.hexdigest()
    return "" if found == sha256 else f"its sha256 is {found}"


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """The file at `path`, opened for reading and appending, and ours alone."""
    while True:
        make_way(path)
        with path.open("a+b", buffering=0) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Who held the lock before us may have renamed or removed the file that we opened.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                    yield handle
                    return


def _publish(handle: FileIO | IO[bytes], growing: Path, final: Path) -> None:
    """Make a complete file visible under its name, on the disk and not only in memory."""
    os.fchmod(handle.fileno(), 0o444)
    os.fsync(handle.fileno())
    make_way(final)
    growing.rename(final)
    folder = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
