"""A large file that grows in blocks, of which a kill takes at most the last.

Every BLOCK bytes the file is synced, and what is safe then is told, for the journal. Syncing has a
thread of its own: the medium is read on while the disk works, at most one block ahead.

On the way back in, the bytes that are there are read from the disk and hashed again, since a
hash can't be stored half way; the medium passes over them. So a file that was continued is proven
whole, and a block that went bad shows at its end.
"""

import os
import stat
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from bundlectl.extract import write_all

#: Bytes between two syncs: a second or two of a disk's work, and what a kill costs at most.
BLOCK = 256 << 20


class Growing:
    """A file that is appended to. Use in a `with` block, at whose end no thread of it is left.

    `safe` hears how many bytes from the start are on the disk (fdatasync(2)), in a thread.
    """

    def __init__(self, handle: FileIO, safe: Callable[[int], None]) -> None:
        self._handle = handle
        self._safe = safe
        self._size = self._told = handle.tell()
        self._syncing: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> "Growing":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def write(self, view: memoryview) -> None:
        """Append bytes.

        Raises OSError, also for an earlier block that the disk did not take.
        """
        write_all(self._handle, view)
        self._size += len(view)
        if self._size - self._told >= BLOCK:
            self.settle()
            self._told = self._size
            self._syncing = self._pool.submit(self._sync, self._size)

    def settle(self) -> None:
        """Wait for the block that is being synced.

        Raises OSError where the disk did not take it.
        """
        if self._syncing is not None:
            self._syncing.result()

    def _sync(self, size: int) -> None:
        os.fdatasync(self._handle.fileno())
        self._safe(size)


def reopen(path: Path, size: int) -> FileIO | None:
    """The file of which an earlier run left `size` bytes or more, cut to them and at its start.

    None where it is no longer that: gone, shorter, a link, another file's second name.
    """
    try:
        opened = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    handle = FileIO(opened, "r+b")
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size < size:
        handle.close()
        return None
    handle.truncate(size)
    return handle
