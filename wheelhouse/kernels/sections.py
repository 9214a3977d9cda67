"""Section tables of ELF files, host libraries and cubins alike.

pyelftools reads them too, but a folder of 16,000 cubins asks for a reader that does nothing else.
Format: System V Application Binary Interface, "ELF Header" and "Sections"; 64-bit little-endian,
as are all hosts and GPUs of CUDA since 2017.
"""

import mmap
import struct
from dataclasses import dataclass

from wheelhouse.kernels.malformed import Malformed

#: What all readers here take. A map of a file; tests use bytes.
Buffer = bytes | mmap.mmap

MAGIC = b"\x7fELF"
#: ... then 64-bit, little-endian, version 1.
IDENT = MAGIC + b"\x02\x01\x01"
#: e_machine of cubins ("NVIDIA CUDA architecture" in the gABI's list).
EM_CUDA = 190
SHT_NULL, SHT_NOBITS = 0, 8
SHF_ALLOC, SHF_EXECINSTR = 2, 4
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
#: e_shstrndx where the index stands in the first section header instead.
_SHN_XINDEX = 0xFFFF
#: Bytes; a longer one is none that is looked for.
_LONGEST_NAME = 256


@dataclass(frozen=True)
class Section:
    """A section; `start` counts from the start of the buffer, in bytes."""

    name: str
    kind: int
    flags: int
    start: int
    size: int

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.start + self.size


@dataclass(frozen=True)
class Header:
    """The part of an ELF header that tells what a file is."""

    machine: int
    flags: int
    abi: int  # EI_ABIVERSION
    table: int  # offset of the section table from the file's start; 0: there is none
    entry_size: int
    entries: int
    names: int  # index of the section with the names


def header(view: Buffer, start: int = 0) -> Header:
    """The header of the ELF file that begins at `start`.

    Raises Malformed where it is cut off or of another class.
    """
    if view[start : start + len(IDENT)] != IDENT:
        raise Malformed(start, "not a 64-bit little-endian ELF file")
    if start + _HEADER.size > len(view):
        raise Malformed(start, "the ELF header is cut off")
    ident, _, machine, _, _, _, table, flags, _, _, _, size, count, names = _HEADER.unpack_from(
        view, start
    )
    return Header(machine, flags, ident[8], table, size, count, names)


def machine(view: Buffer, start: int = 0) -> int:
    """e_machine, also of a file that is cut off behind it; 0 where it is cut off before."""
    return int.from_bytes(view[start + 18 : start + 20], "little")


def sections(view: Buffer, start: int = 0, end: int | None = None) -> tuple[Section, ...]:
    """The sections with contents of the ELF file at `start`, which ends at `end` at the latest.

    Raises Malformed where the table or a section lies outside.
    """
    end = len(view) if end is None else end
    found = header(view, start)
    if not found.table:
        return ()
    first = _entry(view, start + found.table, end)
    count = found.entries or first[5]
    names = first[6] if found.names == _SHN_XINDEX else found.names
    if found.entry_size != _SECTION.size or count * _SECTION.size > end - start - found.table:
        raise Malformed(start + found.table, "the section table is cut off")
    table = [_entry(view, start + found.table + i * _SECTION.size, end) for i in range(count)]
    if names >= count:
        raise Malformed(start, "the section with the names is missing")
    texts = _within(view, start + table[names][4], table[names][5], end)
    result: list[Section] = []
    total = 0
    for name, kind, flags, _, offset, size, *_ in table:
        if kind in (SHT_NULL, SHT_NOBITS) or not size:
            continue
        if start + offset + size > end:
            raise Malformed(start + offset, f"a section of {size} bytes is cut off")
        total += size
        if total > 2 * (end - start):  # each one is read, so they must not all be the whole file
            raise Malformed(start + offset, "the sections lie over each other")
        stop = texts.find(b"\0", name, name + _LONGEST_NAME)
        text = texts[name : max(stop, name)].decode("latin-1")
        result.append(Section(text, kind, flags, start + offset, size))
    return tuple(result)


def _entry(view: Buffer, offset: int, end: int) -> tuple[int, ...]:
    if offset + _SECTION.size > end:
        raise Malformed(offset, "the section table is cut off")
    return _SECTION.unpack_from(view, offset)


def _within(view: Buffer, start: int, size: int, end: int) -> bytes:
    if start + size > end:
        raise Malformed(start, f"the {size} bytes of section names are cut off")
    return view[start : start + size]
