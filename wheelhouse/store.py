"""A content-addressed store: every object is a file named by the sha256 of its bytes.

Objects appear only complete: they grow as a partial file that is named by the digest it is meant to
have, are hashed on the way in, flushed to the disk and renamed. A partial that a kill left behind
is continued by the next run. Several processes may share one store.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from manifests import digests
from manifests.errors import FilesystemError, IntegrityError, from_oserror

Progress = Callable[[int], None]


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

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def path(self, sha256: str) -> Path:
        """Where an object lies, or would lie."""
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Whether an object is there; says nothing about its bytes (see `verified`)."""
        return self.path(sha256).is_file()

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
                if final.exists():
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

    def verified(self, sha256: str, name: str, progress: Progress = silent) -> Path:
        """The path of an object whose bytes were hashed just now.

        An object that went bad is removed, so that the next run fetches just that one again.
        Raises IntegrityError naming it, FilesystemError where it can't be read or isn't there.
        """
        path = self.path(sha256)
        hasher = digests.sha256()
        try:
            with path.open("rb", buffering=0) as handle:
                for view in digests.chunks(handle):
                    hasher.update(view)
                    progress(len(view))
        except FileNotFoundError:
            raise FilesystemError(
                f"{name} is no longer in the store ({path})",
                mend="run the command again: it is fetched anew",
            ) from None
        except OSError as error:
            raise from_oserror(error, f"reading {name}", path) from error
        if hasher.hexdigest() != sha256:
            path.unlink()
            raise IntegrityError(
                f"{name}: its copy in the store went bad (sha256 is {hasher.hexdigest()}, "
                f"expected {sha256})",
                why=f"the file {path} was altered, or the disk is failing",
                mend="the bad copy is removed: run the command again to fetch just that one",
            )
        return path


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """The file at `path`, opened for reading and appending, and ours alone."""
    while True:
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
    growing.rename(final)
    folder = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
