"""Read ahead of the consumer, so that the medium never waits for the processor.

Memory is bounded: DEPTH chunks of CHUNK bytes, whatever the size of the stream.
"""

import queue
import threading
from collections.abc import Iterator

from manifests.digests import CHUNK, Readable

DEPTH = 8


class ReadAhead:
    """A readable stream whose bytes are fetched (hashed, decompressed: by its source) in a thread.

    What comes out are views of the chunks themselves, without another copy.
    """

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

    def views(self, size: int | None = None) -> Iterator[memoryview]:
        """The next `size` bytes, or all that come, in pieces; ends early if the stream does.

        Raises what the reading thread met.
        """
        left = size
        while left is None or left > 0:
            if not self._left and not self._fill():
                return
            piece = self._left if left is None else self._left[:left]
            self._left = self._left[len(piece) :]
            if left is not None:
                left -= len(piece)
            yield piece

    def _fill(self) -> bool:
        """Take the next chunk; False at the end."""
        if self._ended:
            return False
        item = self._queue.get()
        if isinstance(item, BaseException):
            self._ended = True
            raise item
        self._ended = not item
        self._left = memoryview(item)
        return not self._ended

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer only at the end; all that come for -1."""
        return b"".join(self.views(None if size < 0 else size))

    def close(self) -> None:
        """End the thread; safe to call at any time."""
        self._stopped.set()
        self._thread.join()
