"""Zstandard frames as one plain stream that knows where each frame ends.

A frame can be decompressed without those before it, so its start is a place to continue from. The
frames are told apart by their block headers, without decompressing (RFC 8878, section 3.1.1).
"""

import gzip
import zlib
from collections import deque
from typing import IO, Any, NamedTuple, cast

import zstandard

from bundlectl.readahead import ReadAhead
from manifests.digests import CHUNK

#: What the decompressors raise where bytes are not theirs, gzip's included.
UNREADABLE = (zstandard.ZstdError, gzip.BadGzipFile, zlib.error, EOFError)
_MAGIC = b"\x28\xb5\x2f\xfd"
#: Bytes of the content size, by the two highest bits of the descriptor.
_CONTENT_SIZE = (0, 2, 4, 8)
#: Bytes of the dictionary's number, by the two lowest bits.
_DICTIONARY = (0, 1, 2, 4)
_CHECKSUM = 4
_RLE = 1


class Mark(NamedTuple):
    """A place between frames."""

    plain: int  # bytes of the plain stream before it
    compressed: int  # bytes of the compressed stream before it


class Frames:
    """The plain bytes of all frames. `marks` grows as frames end; the consumer takes from it."""

    def __init__(self, raw: ReadAhead, start: Mark) -> None:
        """`raw` stands at `start`, where a frame begins."""
        self._source = _Source(raw, start.compressed)
        self._plain = start.plain
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self.marks: deque[Mark] = deque()

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end.

        Raises ZstdError.
        """
        while self._frame is not None or self._source.begin():
            if self._frame is None:
                self._frame = self._decompressor.stream_reader(
                    cast(IO[bytes], self._source), read_size=CHUNK
                )
            count: int = self._frame.readinto(buffer)
            if count:
                self._plain += count
                return count
            self._frame = None
            if self._source.complete:
                self.marks.append(Mark(self._plain, self._source.offset))
        return 0


class _Source:
    """One frame after the other, as zstandard reads them: header, then block by block."""

    def __init__(self, raw: ReadAhead, offset: int) -> None:
        self._raw = raw
        self.offset = offset
        self.complete = True
        self._start = b""
        self._tail = 0

    def begin(self) -> bool:
        """Go on to the next frame; False at the end of the stream."""
        self._start = self._take(len(_MAGIC) + 1)
        self.complete = False
        return bool(self._start)

    def read(self, _size: int = -1) -> bytes:
        """The next part of the frame; nothing at its end, or where the stream is cut off."""
        if self.complete:
            return b""
        if self._start:
            data, self._start = self._start + self._take(_header_left(self._start)), b""
            self._tail = 4 if data[4] & _CHECKSUM else 0
            return data
        head = self._take(3)
        word = int.from_bytes(head, "little")
        last, kind, size = word & 1, word >> 1 & 3, word >> 3
        wanted = (1 if kind == _RLE else size) + (self._tail if last else 0)
        body = self._take(wanted)
        self.complete = bool(last) and len(head) + len(body) == 3 + wanted
        return head + body

    def _take(self, size: int) -> bytes:
        data = self._raw.read(size)
        self.offset += len(data)
        return data


def _header_left(start: bytes) -> int:
    """Bytes of a frame's header after magic number and descriptor.

    Raises ZstdError.
    """
    if start[:4] != _MAGIC or len(start) < 5:
        raise zstandard.ZstdError("no frame begins here")
    single = start[4] >> 5 & 1
    content = _CONTENT_SIZE[start[4] >> 6] or single
    return content + (not single) + _DICTIONARY[start[4] & 3]
