r"""One interface over hashlib and xxhash.

sha256 is trust: it is what manifests and locks hold. xxh3 only answers "did my own cache change?"
and is never accepted as proof. git-blob is what the Hub publishes for files outside LFS: SHA-1
over the header `blob SIZE\0` and the bytes (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects).

Every loop here reads into one large buffer: hashlib releases the GIL for buffers over 2 KiB, so
threads hash on all cores.
"""

import hashlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

#: Bytes read at a time. Large enough that Python's per-call cost vanishes, small enough for L2+L3.
CHUNK = 1 << 20
#: Seconds until a thread that waits for work looks for itself.
_PATIENCE = 1.0
_Item = TypeVar("_Item")


class Hasher(Protocol):
    """What hashlib and xxhash objects have in common."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        """Take more bytes in."""
        ...

    def hexdigest(self) -> str:
        """Lower-case hexadecimal digits of the bytes so far."""
        ...


class Readable(Protocol):
    """The one method by which everything here reads."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        ...


def sha256() -> Hasher:
    """A new hasher for digests that prove something."""
    return hashlib.sha256()


def git_blob(size: int) -> Hasher:
    """A new hasher for a git blob id; `size` is the file's length in bytes, known beforehand."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def xxh3() -> Hasher:
    """A new fast hasher for our own cache; sha256 where xxhash is not installed."""
    try:
        import xxhash
    except ImportError:
        return hashlib.sha256()
    hasher: Hasher = xxhash.xxh3_128()
    return hasher


def chunks(handle: Readable, size: int | None = None, chunk: int = CHUNK) -> Iterator[memoryview]:
    """Read a stream to its end, or `size` bytes of it, through one reused buffer.

    A view is valid until the next one is asked for. Ends early if the stream does.
    """
    buffer = memoryview(bytearray(chunk if size is None else min(chunk, size)))
    left = size
    while left is None or left > 0:
        wanted = buffer if left is None else buffer[: min(left, len(buffer))]
        count = handle.readinto(wanted)
        if not count:
            return
        yield buffer[:count]
        if left is not None:
            left -= count


def hash_file(path: str | os.PathLike[str], new: Callable[[], Hasher] = sha256) -> str:
    """Hexadecimal digest of a file's bytes.

    Raises OSError where the file can't be read.
    """
    hasher = new()
    with Path(path).open("rb", buffering=0) as handle:
        # Most files are small, and a buffer costs as much as hashing what fits into it.
        size = os.fstat(handle.fileno()).st_size
        for view in chunks(handle, chunk=min(CHUNK, size + 1)):
            hasher.update(view)
    return hasher.hexdigest()


class HashingWriter:
    """A writable stream that counts and hashes what passes through it, in one way or several."""

    def __init__(self, raw: BinaryIO, *hashers: Hasher) -> None:
        self._raw = raw
        self._hashers = hashers
        self.count = 0

    def write(self, data: bytes | memoryview, /) -> int:
        """Write all of the bytes."""
        for hasher in self._hashers:
            hasher.update(data)
        self.count += len(data)
        return self._raw.write(data)

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._raw.flush()


def next_of(items: "queue.Queue[_Item]") -> _Item:
    """Wait for the next item that the main thread puts.

    Looks again after a while: Ctrl-C inside `Condition.notify` can lose the call that wakes us.
    """
    while True:
        try:
            return items.get(timeout=_PATIENCE)
        except queue.Empty:
            continue


class BackgroundHasher:
    """A hasher that works in a thread of its own, at most a few chunks behind the reader."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher
        self._queue: queue.Queue[bytes | None] = queue.Queue(8)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (data := next_of(self._queue)) is not None:
            self._hasher.update(data)

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        """Queue a copy of the bytes."""
        self._queue.put(bytes(data))

    def hexdigest(self) -> str:
        """Wait for the thread and end it; digest of all bytes."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        return self._hasher.hexdigest()


class CountingReader:
    """A readable stream that tells how much has passed."""

    def __init__(self, raw: Readable, progress: Callable[[int], None]) -> None:
        self._raw = raw
        self._progress = progress

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        count = self._raw.readinto(buffer) or 0
        self._progress(count)
        return count


def workers() -> int:
    """How many hashing threads: the cores this process may use."""
    return len(os.sched_getaffinity(0))


def hash_files(paths: Iterable[Path]) -> Iterator[tuple[Path, str | OSError]]:
    """Digests of many files on all cores, in order; an unreadable file yields its error."""

    def one(path: Path) -> tuple[Path, str | OSError]:
        try:
            return path, hash_file(path)
        except OSError as error:
            return path, error

    with ThreadPoolExecutor(workers()) as pool:
        yield from pool.map(one, paths)
