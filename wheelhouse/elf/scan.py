"""Look at every ELF file of a place."""

from pathlib import Path
from typing import TypeVar

from manifests.console import Progress, ignore_progress
from manifests.errors import IntegrityError
from wheelhouse.elf.inventory import ElfFile, ElfInventory, Link, MissingSymbols, Unreadable
from wheelhouse.elf.libraries import known
from wheelhouse.elf.reader import parse
from wheelhouse.elf.symbols import Exchange
from wheelhouse.members import members

T = TypeVar("T", ElfFile, Link, Unreadable, MissingSymbols)


def scan(place: Path, progress: Progress = ignore_progress) -> ElfInventory:
    """What the programs and libraries of a file, wheel, folder or bundle ask for.

    `progress` hears of the bytes passed over; `wheelhouse.members.size_of` says how many there
    will be. Raises UsageError for a place of another kind, FilesystemError where it can't be read,
    IntegrityError where it is damaged, or is itself a file that is no sound ELF.
    """
    files: list[ElfFile] = []
    links: list[Link] = []
    unreadable: list[Unreadable] = []
    exchange = Exchange(known().exports)
    for member in members(place, progress=progress):
        if member.target:
            links.append(Link(member.path, member.target))
            continue
        with member.content() as data:
            try:
                found = parse(data, member.path)
            except IntegrityError as error:
                if member.file == place:
                    raise
                unreadable.append(Unreadable(member.path, error.what))
                continue
            if found is not None:
                files.append(found)
                exchange.enter(found, data)
    missing = list(exchange.missing())
    return ElfInventory(_sorted(files), _sorted(links), _sorted(unreadable), _sorted(missing))


def _sorted(items: list[T]) -> tuple[T, ...]:
    return tuple(sorted(items, key=lambda item: item.path))
