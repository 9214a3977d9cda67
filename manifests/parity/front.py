"""Header and table of digests, at either end of every parity file.

    front:  line, header, zeros, table
    back:   table, zeros, header, line

Both have `front` bytes. The line is `vllm-bundle parity 1 LENGTH SHA256` of the header, so that
each copy proves itself; each leaf of the table is proven by the header.
"""

import re
from dataclasses import dataclass, field

from manifests.bundle import digest_of
from manifests.errors import IntegrityError
from manifests.parity.scheme import DIGEST_SIZE, LEAF, Scheme, parse
from manifests.parity.shelf import Shelf

_LINE = re.compile(rb"vllm-bundle parity 1 (\d{12}) ([0-9a-f]{64})\n")
LINE_SIZE = len("vllm-bundle parity 1 ") + 12 + 1 + 64 + 1
#: Bytes. A header has 70 for each 256 MB of archive.
_LARGEST_HEADER = 16 << 20
_LEAF_SIZE = LEAF * DIGEST_SIZE
#: Bytes of zeros that a front may have at most; packers round it up to a page.
_SLACK = 64 << 10


def render(scheme: Scheme, table: bytes) -> tuple[bytes, bytes]:
    """The front and the back of a parity file."""
    header = scheme.dump()
    line = b"vllm-bundle parity 1 %012d %s\n" % (len(header), digest_of(header).encode())
    room = scheme.front - len(line) - len(header) - len(table)
    zeros = bytes(room)
    return line + header + zeros + table, table + zeros + header + line


def leaves_of(table: bytes) -> tuple[str, ...]:
    """The digests of a table's leaves."""
    return tuple(
        digest_of(table[start : start + _LEAF_SIZE]) for start in range(0, len(table), _LEAF_SIZE)
    )


@dataclass
class Table:
    """The digests of all blocks, as far as they could be read."""

    count: int
    leaves: dict[int, bytes] = field(default_factory=dict)

    def digest(self, number: int) -> bytes | None:
        """sha256 of a block; None where no copy of it is left."""
        leaf, index = divmod(number, LEAF)
        data = self.leaves.get(leaf)
        start = index * DIGEST_SIZE
        return data[start : start + DIGEST_SIZE] if data is not None else None

    def put(self, number: int, digest: bytes) -> None:
        """Take a digest in that was computed from what has been mended."""
        leaf, index = divmod(number, LEAF)
        size = min(LEAF, self.count - leaf * LEAF) * DIGEST_SIZE
        data = bytearray(self.leaves.get(leaf, bytes(size)))
        data[index * DIGEST_SIZE : (index + 1) * DIGEST_SIZE] = digest
        self.leaves[leaf] = bytes(data)

    def dump(self) -> bytes:
        """All digests, in order."""
        return b"".join(self.leaves[leaf] for leaf in sorted(self.leaves))


def read_schemes(shelf: Shelf, names: list[str]) -> dict[bytes, Scheme]:
    """Every header that some parity file still has, by its bytes."""
    found: dict[bytes, Scheme] = {}
    for name in names:
        for size in shelf.sizes(name):
            for data in _headers(shelf, name, size):
                if data not in found:
                    found[data] = parse(data)
    return found


def _headers(shelf: Shelf, name: str, size: int) -> list[bytes]:
    headers = []
    for line_at in (0, size - LINE_SIZE):
        for line in shelf.read(name, line_at, LINE_SIZE):
            match = _LINE.fullmatch(line)
            if match is None or int(match[1]) > min(size, _LARGEST_HEADER):
                continue
            length = int(match[1])
            start = LINE_SIZE if line_at == 0 else line_at - length
            headers += [
                data
                for data in shelf.read(name, start, length)
                if digest_of(data).encode() == match[2]
            ]
    return headers


def read_table(shelf: Shelf, scheme: Scheme) -> Table:
    """Each leaf from the first copy that is right; leaves without one are left out."""
    table = Table(scheme.blocks)
    size = scheme.blocks * DIGEST_SIZE
    for leaf, wanted in enumerate(scheme.leaves):
        start = leaf * _LEAF_SIZE
        length = min(_LEAF_SIZE, size - start)
        for extent in scheme.extents:
            if extent.start and leaf not in table.leaves:  # a file of parity
                for base in (scheme.front - size, extent.end):
                    for data in shelf.read(extent.name, base + start, length):
                        if digest_of(data) == wanted:
                            table.leaves[leaf] = data
    return table


def check_room(scheme: Scheme) -> None:
    """Refuse a front that can't hold what it has to.

    Raises IntegrityError.
    """
    needed = LINE_SIZE + len(scheme.dump()) + scheme.blocks * DIGEST_SIZE
    if not needed <= scheme.front <= needed + _SLACK:
        raise IntegrityError(f"the header of the parity: a front of {scheme.front} bytes")
