"""One program at a time: locks that end with the process that holds them, however it ends."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from manifests.errors import UsageError, from_oserror


@contextlib.contextmanager
def held(path: Path, what: str, mend: str) -> Iterator[None]:
    """Hold a lock (flock(2)) on a file, which is made where it is missing.

    Raises UsageError with `what` and `mend` where another process holds it, FilesystemError.
    """
    try:
        handle = path.open("w")
    except OSError as error:
        raise from_oserror(error, "locking the installation", path) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(what, mend=mend) from None
        yield
