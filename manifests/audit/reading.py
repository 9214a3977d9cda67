"""How bytes are read in an audit: each once, at most so many a second, until told to stop."""

import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from manifests.console import Progress, ignore_progress
from manifests.digests import CHUNK, chunks, sha256

#: Parts of a second in which a thread reads at the most, so that a slow pace is an even one.
_PARTS = 8


class Stopped(Exception):
    """The audit ends before its end; nobody is told."""


class Seekable(Protocol):
    """A stream that can pass over bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        ...

    def seek(self, offset: int, whence: int, /) -> int:
        """Move forwards."""
        ...


class Reading:
    """What all threads of an audit share: its pace, its bar, its end.

    `rate` is in bytes per second over all threads, 0 for as fast as it goes; `clock` and `wait`
    (which gives True where the audit is to end) are time's own.
    """

    def __init__(
        self,
        progress: Progress = ignore_progress,
        rate: int = 0,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._progress = progress
        self._rate = rate
        self._clock = clock
        self._halt = threading.Event()
        self._wait = wait or self._halt.wait
        self._lock = threading.Lock()
        self._free = 0.0  # when the next byte may pass
        self.chunk = min(CHUNK, max(rate // _PARTS, 4096)) if rate else CHUNK

    def stop(self) -> None:
        """Let all threads end at their next bytes."""
        self._halt.set()

    def passed(self, count: int) -> None:
        """Tell the bar (from any thread); a negative count takes back."""
        with self._lock:
            self._progress(count)

    def pace(self, count: int) -> None:
        """Wait until `count` bytes more may pass.

        Raises Stopped.
        """
        if self._rate:
            with self._lock:
                now = self._clock()
                start = max(now, self._free)
                self._free = start + count / self._rate
            if start > now:
                self._wait(start - now)
        if self._halt.is_set():
            raise Stopped

    def digest(self, path: Path, tell: Progress) -> str:
        """sha256 of a regular file's bytes; `tell` hears of them.

        Raises OSError where it can't be read, Stopped.
        """
        hasher = sha256()
        self._feed(path, tell, hasher.update)
        return hasher.hexdigest()

    def whole(self, path: Path, tell: Progress) -> bytes:
        """A regular file's bytes.

        Raises OSError where it can't be read, Stopped.
        """
        data = bytearray()
        self._feed(path, tell, data.extend)
        return bytes(data)

    def _feed(self, path: Path, tell: Progress, take: Callable[[memoryview], object]) -> None:
        # What was looked at may be a pipe or a link by now.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "no regular file any more", str(path))
            # One byte more than it has: a file that grows has another digest, and comes to an end.
            size = status.st_size + 1
            for view in chunks(file, size, min(self.chunk, size)):
                take(view)
                tell(len(view))
                self.pace(len(view))


class Paced:
    """A stream that is read at the audit's pace, and tells its bar."""

    def __init__(self, raw: Seekable, reading: Reading) -> None:
        self._raw = raw
        self._reading = reading

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        count = self._raw.readinto(buffer[: self._reading.chunk]) or 0
        self._reading.passed(count)
        self._reading.pace(count)
        return count

    def seek(self, offset: int, whence: int) -> int:
        """Pass over bytes that are not read."""
        return self._raw.seek(offset, whence)
