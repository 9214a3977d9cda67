"""An ELF file as the loader maps it: segments, the dynamic section, and the tables it points to.

Section headers are not looked at, as the loader does not either, so stripped files are read too.

Formats: System V gABI, chapters 4 and 5 (https://gabi.xinuos.com); names and numbers as in glibc's
<elf.h>.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

Bytes = mmap.mmap | bytes
#: What reading a damaged file raises; the modules that read one turn it into IntegrityError.
DAMAGE = (struct.error, ValueError, IndexError, KeyError, OverflowError)

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME, DT_RPATH = 1, 4, 5, 6, 10, 14, 15
DT_RUNPATH, DT_GNU_HASH = 29, 0x6FFFFEF5
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = range(0x6FFFFFFC, 0x70000000)
_PROGRAM_HEADER = "<IIQQQQQQ"
#: Linkers write about a dozen; each one can claim the whole file.
_MOST_SEGMENTS = 128


@dataclass(frozen=True)
class Segment:
    """A program header, as far as it is needed."""

    kind: int
    offset: int  # in the file
    address: int  # in memory
    size: int  # bytes in the file


class Image:
    """A 64-bit little-endian file. Everything here raises one of DAMAGE where it is unsound."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        # Names and tables may overlap, so that a small file could ask for terabytes of them.
        self._budget = 16 * len(data) + (1 << 20)
        (offset,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        if count and size != struct.calcsize(_PROGRAM_HEADER):
            raise ValueError(f"program headers of {size} bytes")
        if count > _MOST_SEGMENTS:
            raise ValueError(f"{count} program headers")
        self._segments = [self._segment(offset + index * size) for index in range(count)]
        self.tags = self._dynamic()
        self.strings = self._string_table()

    def _segment(self, at: int) -> Segment:
        kind, _, offset, address, _, size, *_ = struct.unpack_from(_PROGRAM_HEADER, self.data, at)
        return Segment(kind, offset, address, size)

    def _dynamic(self) -> dict[int, list[int]]:
        """Values of the dynamic section by tag; empty for a static file."""
        tags: dict[int, list[int]] = {}
        for table in self.contents(PT_DYNAMIC):
            for tag, value in struct.iter_unpack("<QQ", table[: len(table) & ~15]):
                if not tag:
                    return tags
                tags.setdefault(tag, []).append(value)
        return tags

    def _string_table(self) -> bytes:
        if DT_STRTAB not in self.tags:
            return b""
        return self.slice(self.at(DT_STRTAB), self.tags[DT_STRSZ][0])

    def contents(self, kind: int) -> Iterator[bytes]:
        """The bytes of all segments of a kind; empty segments are left out."""
        for segment in self._segments:
            if segment.kind == kind and segment.size:
                yield self.slice(segment.offset, segment.size)

    def slice(self, offset: int, size: int) -> bytes:
        """Bytes of the file, exactly so many."""
        if offset + size > len(self.data):
            raise ValueError(f"{size} bytes at {offset} lie behind its end")
        return self.data[offset : offset + size]

    def at(self, tag: int) -> int:
        """Where in the file a table of the dynamic section starts."""
        address = self.tags[tag][0]
        for segment in self._segments:
            if segment.kind == PT_LOAD and 0 <= address - segment.address < segment.size:
                return segment.offset + address - segment.address
        raise ValueError(f"the address {address:#x} is in no segment")

    def raw_string(self, at: int) -> bytes:
        """A name in the string table."""
        end = self.strings.find(b"\0", at)
        if at >= len(self.strings) or end < 0:
            raise ValueError(f"the name at {at} is outside the string table")
        self.spend(end - at)
        return self.strings[at:end]

    def spend(self, size: int) -> None:
        """Count bytes that were read by way of a table; entries count as a few each."""
        self._budget -= size + 8
        if self._budget < 0:
            raise ValueError("its tables name more than it holds")

    def string(self, at: int) -> str:
        """A name in the string table, as text."""
        return text(self.raw_string(at))

    def texts(self, tag: int) -> tuple[str, ...]:
        """The names that the dynamic section has under a tag."""
        return tuple(map(self.string, self.tags.get(tag, ())))


def text(name: bytes) -> str:
    """A name for people; bytes that are no UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")
