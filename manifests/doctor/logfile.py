"""Read a log of any size, encoding or compression in bounded memory."""

import bz2
import codecs
import gzip
import lzma
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO

from manifests.doctor.lines import clean
from manifests.errors import UsageError, from_oserror

#: Bytes that are kept. The first errors are causes, the last start is at the end; what a server
#: writes between them for weeks is the same few lines about throughput.
HEAD = TAIL = 2 << 20
_CHUNK = 1 << 18
_MAGIC: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@dataclass(frozen=True)
class Log:
    """The lines of a log, as far as they are kept, without decoration."""

    name: str
    lines: tuple[str, ...]
    gap: int = 0  # index in `lines` before which lines were left out; 0: none were
    left_out: int = 0  # lines
    levels: tuple[str, ...] = ()  # what a logger called each line: "ERROR", "INFO", … or nothing
    notes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """All lines, for expressions that look at several."""
        return "\n".join(self.lines)

    def number(self, index: int) -> int:
        """The number in the file, from 1, of a line."""
        return index + 1 + (self.left_out if self.gap and index >= self.gap else 0)


def from_text(name: str, text: str) -> Log:
    """A log from a text that is at hand."""
    return _log(name, text.split("\n"))


def _log(name: str, raw: list[str], **about: Any) -> Log:
    lines, levels = zip(*map(clean, raw), strict=True)
    return Log(name, lines, levels=levels, **about)


def read(path: Path, *, head: int = HEAD, tail: int = TAIL) -> Log:
    """Read a log file. `head` and `tail` are bytes that are kept of it.

    Raises UsageError where it is not there or no file, FilesystemError where it can't be read.
    """
    try:
        with path.open("rb") as raw:
            return read_stream(str(path), raw, head=head, tail=tail)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(
            f"{path}: {(error.strerror or 'not there').lower()}",
            mend="name the file that holds the server's log, or - for standard input",
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the log", path) from None


def read_stream(name: str, raw: BinaryIO, *, head: int = HEAD, tail: int = TAIL) -> Log:
    """Read a log from an open file or pipe; what is compressed is unpacked on the way."""
    start = raw.read(_CHUNK)
    opener = next((opener for magic, opener in _MAGIC if start.startswith(magic)), None)
    source = _Rejoined(start, raw)
    kept = _Kept(head, tail)
    notes: list[str] = []
    stream: Any = source if opener is None else opener(source)  # type: ignore[arg-type] # has read()
    # Of what is cut off, read1 gives the part before the cut.
    take = getattr(stream, "read1", stream.read)
    try:
        while data := take(_CHUNK):
            kept.add(data)
    except _BROKEN as error:
        notes.append(f"{name}: the compressed file is damaged or cut ({error})")
    except OSError as error:
        if opener is None:
            raise
        notes.append(f"{name}: the compressed file is damaged ({error})")
    return kept.log(name, notes)


class _Rejoined:
    """A stream whose beginning was read already."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start, self._rest = start, rest

    def read(self, size: int = -1) -> bytes:
        if self._start:
            data = self._start if size < 0 else self._start[:size]
            self._start = self._start[len(data) :]
            return data
        return self._rest.read(size)

    def seekable(self) -> bool:
        return False

    def readable(self) -> bool:
        return True


class _Kept:
    """The first and the last bytes of a stream, and how many lines lay between."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._dropped_lines = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._held += len(data)
        while self._tail and self._held - len(self._tail[0]) >= self._tail_size:
            gone = self._tail.popleft()
            self._held -= len(gone)
            self._dropped += len(gone)
            self._dropped_lines += gone.count(b"\n")

    def log(self, name: str, notes: list[str]) -> Log:
        tail = b"".join(self._tail)
        encoding = _encoding(bytes(self._head[:4096]))
        if not self._dropped:
            return _log(name, _split(bytes(self._head) + tail, encoding), notes=tuple(notes))
        first, last = _split(bytes(self._head), encoding), _split(tail, encoding)
        notes.append(f"{name}: {self._dropped} bytes in the middle were left out")
        # The two cut lines are kept as they are.
        missing = max(0, self._dropped_lines - 1)
        gap = {"gap": len(first), "left_out": missing, "notes": tuple(notes)}
        return _log(name, first + last, **gap)


def _encoding(start: bytes) -> str:
    for bom, name in _BOMS:
        if start.startswith(bom):
            return name
    # Text in ASCII as UTF-16, of PowerShell and others, has a NUL in every other byte. Whatever
    # else a log is written in agrees with UTF-8 on the letters that messages are made of.
    for name, nuls in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if len(nuls) > 8 and nuls.count(0) * 2 > len(nuls):
            return name
    return "utf-8"


def _split(data: bytes, encoding: str) -> list[str]:
    return data.decode(encoding, "replace").removeprefix("\ufeff").split("\n")
