"""Symbols that files of an environment take from each other, where a mismatch is known to happen.

An extension that was compiled for another torch loads all its libraries and then dies with
`undefined symbol: _ZN3c10…`. Reading the symbols of every library would take long; the table
`libraries.toml` names the libraries and the prefixes of the symbols that are worth it.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manifests.console import Progress, ignore_progress
from wheelhouse.elf.image import DAMAGE, DT_GNU_HASH, DT_HASH, DT_SYMTAB, Bytes, Image
from wheelhouse.elf.inventory import ElfFile, ElfInventory
from wheelhouse.elf.judge import OPTIONAL, SYMBOL, Finding, Judgement
from wheelhouse.elf.libraries import Exports, Libraries, known, matches
from wheelhouse.members import members

_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_STB_GLOBAL = 1
#: How many symbols of a file a finding names.
_NAMED = 3


@dataclass
class _Ledger:
    """Symbols with the prefixes of one rule."""

    rule: Exports
    offered: set[bytes] = field(default_factory=set)
    asked: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))


def undefined(
    place: Path,
    inventory: ElfInventory,
    progress: Progress = ignore_progress,
    libraries: Libraries | None = None,
) -> Judgement:
    """Symbols that no file of a place offers. `inventory` is what `scan` found there.

    Rules whose library is not in the place are left out: nothing can be said about them. Raises
    what `scan` raises.
    """
    table = libraries or known()
    files = {file.path: file for file in inventory.files}
    ledgers = [
        _Ledger(rule)
        for rule in table.exports
        if any(_offers(rule, file) for file in inventory.files)
    ]
    if not ledgers:
        return Judgement()
    for member in members(place, progress=progress):
        file = files.get(member.path)
        concerned = [ledger for ledger in ledgers if file and _concerned(ledger.rule, file)]
        if not concerned:
            continue
        with member.content() as data:
            _enter(data, member.path, concerned)
    return _verdict(ledgers, table)


def _offers(rule: Exports, file: ElfFile) -> bool:
    return matches(file.soname or file.name, rule.libraries)


def _concerned(rule: Exports, file: ElfFile) -> bool:
    return _offers(rule, file) or any(matches(name, rule.libraries) for name in file.needed)


def _enter(data: Bytes, path: str, ledgers: list[_Ledger]) -> None:
    prefixes = [tuple(prefix.encode() for prefix in ledger.rule.symbols) for ledger in ledgers]
    try:
        for name, defined, strong in symbols(data):
            for ledger, starts in zip(ledgers, prefixes, strict=True):
                if not name.startswith(starts):
                    continue
                if defined:
                    ledger.offered.add(name)
                elif strong:
                    ledger.asked[path].add(name)
    except DAMAGE:
        return  # `scan` has listed it as unreadable, or its symbols are hidden from us


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


def _verdict(ledgers: list[_Ledger], table: Libraries) -> Judgement:
    errors: list[Finding] = []
    notes: list[Finding] = []
    for ledger in ledgers:
        for path, asked in sorted(ledger.asked.items()):
            missing = sorted(name.decode("ascii", "replace") for name in asked - ledger.offered)
            if not missing:
                continue
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            named = ", ".join(missing[:_NAMED]) + more
            excuse = table.excuse(path, missing[0])
            if excuse:
                notes.append(Finding(OPTIONAL, f"{excuse} (lacking: {named})", (path,)))
            else:
                what = f"made for another {ledger.rule.what}, which lacks {named}"
                errors.append(Finding(SYMBOL, what, (path,)))
    return Judgement(tuple(errors), tuple(notes))
