"""One program at a time: locks that end with the process that holds them, however it ends."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from manifests.errors import FilesystemError, UsageError, from_oserror


@contextlib.contextmanager
def held(path: Path, what: str, mend: str) -> Iterator[None]:
    """Hold a lock (flock(2)) on a file, which is made where it is missing.

    Raises UsageError with `what` and `mend` where another process holds it, FilesystemError.
    """
    handle = _open(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(what, mend=mend) from None
        except OSError as error:
            raise from_oserror(error, "locking the installation", path) from error
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """A handle of the file, which may lie in a folder of another account.

    So no link is followed and nothing is cut off. What root has made can be read alone.
    """
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            return os.open(path, flags | os.O_RDWR, 0o644)  # NFS locks only what can be written
        except PermissionError:
            return os.open(path, flags | os.O_RDONLY, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FilesystemError(
                f"{path}: a link lies in the place of a lock",
                why="no link is followed there: it may lead to anybody's file",
                mend="see who has put it there, and remove it",
            ) from None
        raise from_oserror(error, "locking the installation", path) from error
