"""The layout of parity: which bytes lie in which row and column, and in which file."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from manifests import canonical, tree
from manifests.errors import IntegrityError
from manifests.medium import INSTALLER
from manifests.names import DIGEST, MEDIA_NAME
from manifests.parity.names import RESTORER, head_name
from manifests.records import from_data, to_data
from manifests.sums import UNLISTED

SCHEMA = 1
#: Rows of data: with one row of parity for each percent.
ROWS = 100
MOST_PARITY = 100
#: Bytes of a block. The least is a sector of an optical disc (ECMA-267, ECMA-130).
SMALLEST_BLOCK, LARGEST_BLOCK = 2 << 10, 256 << 10
#: Blocks grow with the archive, so that a column stays a small part of it.
_COLUMNS = 64
#: Digests in one leaf of the table; a leaf is proven by a digest in the header.
LEAF = 1024
DIGEST_SIZE = 32


@dataclass(frozen=True)
class Protected:
    """A file that can be rebuilt."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Spare:
    """A file of parity, with the blocks `first` … `first + count - 1` of all rows of parity."""

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Run:
    """A block: where it lies in its file. Its number counts data first, then parity."""

    number: int
    name: str
    offset: int  # bytes into the file
    size: int  # bytes; a file's last block is shorter


@dataclass(frozen=True)
class Extent:
    """The blocks of one file."""

    name: str
    size: int  # bytes of the file
    first: int  # number of its first block
    count: int
    start: int  # bytes before the first block
    block: int
    end: int  # bytes up to the end of the last block

    def run(self, number: int) -> Run:
        """One of the blocks."""
        offset = self.start + (number - self.first) * self.block
        return Run(number, self.name, offset, min(self.block, self.end - offset))

    def runs(self) -> Iterator[Run]:
        """All of the blocks."""
        return map(self.run, range(self.first, self.first + self.count))


@dataclass(frozen=True)
class Scheme:
    """The header of the parity: everything that it says about itself.

    `head` bytes of the first file are what install.sh starts from, and have a file of their own;
    `front` bytes at either end of each spare hold this header and the table of digests.
    """

    schema: int
    parity: int  # rows
    block: int  # bytes
    files: tuple[Protected, ...]
    head: int
    spares: tuple[Spare, ...] = ()
    front: int = 0
    leaves: tuple[str, ...] = ()  # sha256 of each leaf of the table

    @cached_property
    def data_blocks(self) -> int:
        """Blocks of data that exist; the last row ends in zeros that do not."""
        return sum(-(-file.size // self.block) for file in self.files)

    @cached_property
    def columns(self) -> int:
        """Blocks in a row."""
        return -(-self.data_blocks // ROWS)

    @cached_property
    def blocks(self) -> int:
        """Blocks of data and of parity: the digests in the table."""
        return self.data_blocks + self.parity * self.columns

    def place(self, number: int) -> tuple[int, int]:
        """The row and the column of a block; rows of parity come after those of data."""
        if number < self.data_blocks:
            return divmod(number, self.columns)
        row, column = divmod(number - self.data_blocks, self.columns)
        return ROWS + row, column

    def at(self, row: int, column: int) -> int | None:
        """The number of a block; None for the zeros at the end of the last row."""
        if row >= ROWS:
            return self.data_blocks + (row - ROWS) * self.columns + column
        number = row * self.columns + column
        return number if number < self.data_blocks else None

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        """The files that hold blocks, in the order of their numbers."""
        extents, number = [], 0
        for file in self.files:
            count = -(-file.size // self.block)
            extents.append(Extent(file.name, file.size, number, count, 0, self.block, file.size))
            number += count
        for spare in self.spares:
            end = self.front + spare.count * self.block
            first = number + spare.first
            extents.append(
                Extent(
                    spare.name, end + self.front, first, spare.count, self.front, self.block, end
                )
            )
        return tuple(extents)

    def run(self, number: int) -> Run:
        """A block by its number."""
        index = bisect_right(self.extents, number, key=lambda extent: extent.first)
        return self.extents[index - 1].run(number)

    def twin(self, run: Run) -> str:
        """The file that has the same bytes at the same place; empty where there is none."""
        if run.name == INSTALLER:
            return RESTORER
        first = self.files[0].name
        in_head = run.name == first and run.offset + run.size <= self.head
        return head_name(first) if in_head else ""

    def dump(self) -> bytes:
        """The canonical bytes of the header."""
        return canonical.dumps(to_data(self))


def block_size(length: int) -> int:
    """Bytes of a block for `length` bytes of archive: a power of two."""
    size = SMALLEST_BLOCK
    while size < LARGEST_BLOCK and size * ROWS * _COLUMNS < length:
        size *= 2
    return size


def parse(data: bytes) -> Scheme:
    """Read a header.

    Raises IntegrityError for one that no honest packer writes.
    """
    where = "the header of the parity"
    try:
        value = canonical.loads(data)
    except ValueError as error:
        raise IntegrityError(f"{where}: not canonical JSON ({error})") from None
    scheme = from_data(Scheme, value, where, exact=True)
    problem = _problem(scheme)
    if problem:
        raise IntegrityError(f"{where}: {problem}")
    return scheme


def _problem(scheme: Scheme) -> str:
    if scheme.schema != SCHEMA:
        return f"schema {scheme.schema}; this program reads {SCHEMA}"
    if not 1 <= scheme.parity <= MOST_PARITY:
        return f"{scheme.parity} rows of parity"
    sizes = {SMALLEST_BLOCK << n for n in range(8)}
    if scheme.block not in sizes or scheme.block > LARGEST_BLOCK:
        return f"blocks of {scheme.block} bytes"
    if not scheme.files or not scheme.spares or scheme.front <= 0:
        return "no files"
    names = [file.name for file in scheme.files] + [spare.name for spare in scheme.spares]
    names += [RESTORER, head_name(scheme.files[0].name)]
    if len({name.casefold() for name in names}) != len(names):
        return "a name twice"
    for name in names:
        if not MEDIA_NAME.fullmatch(name) or name in UNLISTED:
            return f"the name {name!r}"
    if INSTALLER not in names:
        return f"no {INSTALLER}"
    for file in scheme.files:
        if not 0 < file.size <= tree.LARGEST or not DIGEST.fullmatch(file.sha256):
            return f"{file.name} has no size or digest"
    if not 0 < scheme.head <= scheme.files[0].size:
        return f"a head of {scheme.head} bytes"
    expected = 0
    for spare in scheme.spares:
        if spare.first != expected or spare.count <= 0:
            return f"{spare.name} does not follow on what is before it"
        expected += spare.count
    if expected != scheme.parity * scheme.columns:
        return f"{expected} blocks of parity"
    if len(scheme.leaves) != -(-scheme.blocks // LEAF):
        return f"{len(scheme.leaves)} leaves"
    return ""
