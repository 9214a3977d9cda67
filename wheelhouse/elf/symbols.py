"""Symbols that files of an environment take from each other, where a mismatch is known to happen.

An extension that was compiled for another torch loads all its libraries and then dies with
`undefined symbol: _ZN3c10…`. Reading the symbols of every library would take long; the table
`libraries.toml` names the libraries and the prefixes of the symbols that are worth it.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wheelhouse.elf.image import DAMAGE, DT_GNU_HASH, DT_HASH, DT_SYMTAB, Bytes, Image
from wheelhouse.elf.inventory import ElfFile, MissingSymbols
from wheelhouse.elf.libraries import Exports, matches

_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_STB_GLOBAL = 1


class Exchange:
    """What the files of a place offer each other and ask of each other, by the rules of a table."""

    def __init__(self, rules: Sequence[Exports]) -> None:
        self._ledgers = [_Ledger(rule) for rule in rules]

    def enter(self, file: ElfFile, data: Bytes) -> None:
        """Take a file in; one whose symbols can't be read counts as having none."""
        ledgers = [ledger for ledger in self._ledgers if ledger.concerns(file)]
        if not ledgers:
            return
        try:
            for name, defined, strong in symbols(data):
                for ledger in ledgers:
                    ledger.enter(file.path, name, defined, strong)
        except DAMAGE:
            return

    def missing(self) -> Iterator[MissingSymbols]:
        """What is asked for and offered by none; of rules whose library is not there, nothing."""
        for ledger in self._ledgers:
            if ledger.supplied:
                yield from ledger.missing()


@dataclass
class _Ledger:
    """Symbols with the prefixes of one rule."""

    rule: Exports
    supplied: bool = False
    offered: set[bytes] = field(default_factory=set)
    asked: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self._prefixes = tuple(prefix.encode() for prefix in self.rule.symbols)

    def concerns(self, file: ElfFile) -> bool:
        supplies = matches(file.soname or file.name, self.rule.libraries)
        self.supplied |= supplies
        return supplies or any(matches(name, self.rule.libraries) for name in file.needed)

    def enter(self, path: str, name: bytes, defined: bool, strong: bool) -> None:
        if not name.startswith(self._prefixes):
            return
        if defined:
            self.offered.add(name)
        elif strong:
            self.asked[path].add(name)

    def missing(self) -> Iterator[MissingSymbols]:
        for path, asked in self.asked.items():
            names = sorted(
                name.decode("ascii", "backslashreplace") for name in asked - self.offered
            )
            if names:
                yield MissingSymbols(path, self.rule.what, names[0], len(names))


def symbols(data: Bytes) -> Iterator[tuple[bytes, bool, bool]]:
    """Name of each dynamic symbol, whether it is defined, and whether it must be.

    Raises one of DAMAGE for a file that is unsound.
    """
    elf = Image(data)
    if DT_SYMTAB not in elf.tags:
        return
    table = elf.slice(elf.at(DT_SYMTAB), _count(elf) * _SYMBOL.size)
    for name, info, _, section, _, _ in _SYMBOL.iter_unpack(table):
        if info >> 4:  # not STB_LOCAL
            yield elf.raw_string(name), section != 0, info >> 4 == _STB_GLOBAL


def _count(elf: Image) -> int:
    """How many dynamic symbols there are: only the hash tables know."""
    if DT_HASH in elf.tags:
        _, chains = struct.unpack_from("<II", elf.data, elf.at(DT_HASH))
        return int(chains)
    if DT_GNU_HASH not in elf.tags:
        return 0
    # Layout: https://sourceware.org/gnu-gabi/program-loading-and-dynamic-linking.txt
    at = elf.at(DT_GNU_HASH)
    buckets, first, bloom, _ = struct.unpack_from("<IIII", elf.data, at)
    at += 16 + 8 * bloom
    last = max(struct.unpack(f"<{buckets}I", elf.slice(at, 4 * buckets)), default=0)
    if last < first:  # nothing is exported; what is imported comes before `first`
        return int(first)
    at += 4 * buckets
    while not struct.unpack_from("<I", elf.data, at + 4 * (last - first))[0] & 1:
        last += 1
    return last + 1
