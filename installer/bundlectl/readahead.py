"""Read ahead of the consumer, so that the medium never waits for the processor.

Memory is bounded: DEPTH chunks of CHUNK bytes, whatever the size of the stream.
"""

import queue
import threading
from collections.abc import Iterator

from manifests.digests import CHUNK, Readable

DEPTH = 8


class ReadAhead:
    """A readable stream whose bytes are fetched (and hashed, by what it reads from) in a thread."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._queue: queue.Queue[bytes | BaseException] = queue.Queue(DEPTH)
        self._stopped = threading.Event()
        self._left = memoryview(b"")
        self._ended = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            for data in self._chunks():
                self._put(data)
            self._put(b"")
        except BaseException as error:  # handed to the consumer, who raises it
            self._put(error)

    def _chunks(self) -> Iterator[bytes]:
        buffer = memoryview(bytearray(CHUNK))
        while not self._stopped.is_set():
            count = self._raw.readinto(buffer)
            if not count:
                return
            yield bytes(buffer[:count])

    def _put(self, item: bytes | BaseException) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def next_chunk(self) -> memoryview:
        """The next bytes, empty at the end; raises what the reading thread met."""
        if not self._left and not self._ended:
            item = self._queue.get()
            if isinstance(item, BaseException):
                self._ended = True
                raise item
            self._ended = not item
            self._left = memoryview(item)
        chunk, self._left = self._left, memoryview(b"")
        return chunk

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        chunk = self.next_chunk()
        count = min(len(chunk), len(buffer))
        buffer[:count] = chunk[:count]
        self._left = chunk[count:]
        return count

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes; whatever is at hand for -1."""
        chunk = self.next_chunk()
        count = len(chunk) if size < 0 else min(size, len(chunk))
        self._left = chunk[count:]
        return bytes(chunk[:count])

    def close(self) -> None:
        """End the thread; safe to call at any time."""
        self._stopped.set()
        self._thread.join()
