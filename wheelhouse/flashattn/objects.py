"""Half-written object files: removed before ninja looks at what an earlier run has left.

ninja itself rebuilds an object that was being written when it was killed: its log has no entry for
it. A power failure is another matter, where the log may be on the disk and the object is not.
"""

import struct
from pathlib import Path

# System V gABI, "ELF Header" of a 64-bit little-endian file.
_HEADER_SIZE = 64
_START = b"\x7fELF\x02\x01"
_SHOFF, _SHENTSIZE = 40, 58


def sound(path: Path) -> bool:
    """Whether an object file is whole: its section table, which compilers write last, is there."""
    with path.open("rb") as handle:
        header = handle.read(_HEADER_SIZE)
        length = handle.seek(0, 2)
    if len(header) < _HEADER_SIZE or not header.startswith(_START):
        return False
    offset: int = struct.unpack_from("<Q", header, _SHOFF)[0]
    entry, count = struct.unpack_from("<HH", header, _SHENTSIZE)
    return offset > 0 and offset + int(entry) * int(count) <= length


def drop_broken(folder: Path) -> tuple[Path, ...]:
    """Remove the object files below a folder that are not whole; those that were removed."""
    broken = tuple(path for path in sorted(folder.rglob("*.o")) if not sound(path))
    for path in broken:
        path.unlink()
    return broken
