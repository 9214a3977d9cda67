"""Whether an environment's libraries load on the target: what stops a bundle, and what to know."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from wheelhouse.elf.findings import (
    GLIBC,
    KINDS,
    MISSING,
    MIXED,
    OPTIONAL,
    ORDER,
    OTHER,
    SEARCH,
    SYMBOL,
    TWICE,
    VERSION,
    Finding,
    Judgement,
)
from wheelhouse.elf.floors import numbers, split
from wheelhouse.elf.inventory import ElfFile, ElfInventory
from wheelhouse.elf.libraries import Libraries, known, matches
from wheelhouse.elf.loader import Loader, Source, search_folders


@dataclass
class _Case:
    """An environment under examination, and what was found so far."""

    inventory: ElfInventory
    libraries: Libraries
    loader: Loader
    glibc: str
    winning: Sequence[str]
    errors: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    excused: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    def lacks(self, kind: str, file: ElfFile, lacking: str, what: str) -> None:
        """A file does not get something: an error, unless it may go without."""
        excuse = self.libraries.excuse(file.path, lacking)
        if excuse:
            self.excused[excuse].append((lacking, file.path))
        else:
            self.errors[kind, what].append(file.path)

    def note(self, kind: str, what: str, path: str) -> None:
        self.notes[kind, what].append(path)


def judge(
    inventory: ElfInventory,
    *,
    glibc: str = "",
    winning: Sequence[str] = (),
    libraries: Libraries | None = None,
    beneath: Collection[str] = (),
) -> Judgement:
    """Examine a whole environment for a target.

    `glibc` is the target's version, "2.31"; "" leaves it out. `winning` are the names of the
    stack's libraries on LD_LIBRARY_PATH, which are looked for in `lib`. `libraries` replaces the
    table of the program; `beneath` are names of libraries that the host's own Python environment
    has. Files that the table calls optional cause notes where others cause errors.
    """
    table = libraries or known()
    loader = Loader(inventory, table, winning, beneath)
    case = _Case(inventory, table, loader, glibc, winning)
    for check in _CHECKS:
        check(case)
    for reason, cases in case.excused.items():
        lacking = ", ".join(sorted({lacking for lacking, _ in cases}))
        case.notes[OPTIONAL, f"{reason} (lacking: {lacking})"] += [path for _, path in cases]
    return Judgement(_findings(case.errors), _findings(case.notes))


def _findings(found: dict[tuple[str, str], list[str]]) -> tuple[Finding, ...]:
    made = [
        Finding(kind, what, tuple(dict.fromkeys(paths))) for (kind, what), paths in found.items()
    ]
    return tuple(sorted(made, key=lambda finding: (KINDS.index(finding.kind), finding.what)))


def _glibc(case: _Case) -> None:
    """Symbol versions that the target's glibc is too old for."""
    if not case.glibc:
        return
    for file in case.inventory.files:
        for version in file.wanted:
            family, number = split(version, case.libraries.glibc) or ("", "")
            if family == "GLIBC" and numbers(number) > numbers(case.glibc):
                what = f"{version} is wanted, the target has glibc {case.glibc}"
                case.lacks(GLIBC, file, version, what)
            elif not family and version.startswith("GLIBC_ABI_"):
                case.lacks(GLIBC, file, version, f"{version} is wanted, of an unknown glibc")


def _versions(case: _Case) -> None:
    """Symbol versions that the library of the environment which will be taken doesn't have."""
    for file in case.inventory.files:
        for need in file.versions:
            offers = [f for f in case.loader.supply(file, need.library).files if f.defines]
            for version in need.versions if offers else ():
                if not any(version in offer.defines for offer in offers):
                    what = f"{version} is wanted, {offers[0].path} does not have it"
                    case.lacks(VERSION, file, version, what)


def _symbols(case: _Case) -> None:
    """Symbols that the libraries of the environment don't have, though they bear the right name."""
    files = {file.path: file for file in case.inventory.files}
    for lack in case.inventory.missing:
        file = files[lack.path]
        supplies = (case.loader.supply(file, library).source for library in file.needed)
        if Source.NOTHING in supplies:
            continue  # the symbols may be in the library that is not there, of which we tell
        more = f" and {lack.count - 1} more" if lack.count > 1 else ""
        what = f"made for another {lack.library}; this one lacks {lack.first}{more}"
        case.lacks(SYMBOL, file, lack.first, what)


def _supplies(case: _Case) -> None:
    """Libraries that nothing supplies, or only something that was loaded before."""
    for file in case.inventory.files:
        for library in file.needed:
            supply = case.loader.supply(file, library)
            if supply.source is Source.NOTHING:
                kin = case.loader.kin(library)
                hint = f" (there is {', '.join(kin)})" if kin else ""
                case.lacks(MISSING, file, library, f"{library} is supplied by nothing{hint}")
            elif supply.source is Source.LOADED and supply.files[0].folder != file.folder:
                where = supply.files[0].path
                what = f"{library} is found only where {where} was loaded before"
                case.note(ORDER, what, file.path)


def _winners(case: _Case) -> None:
    """Libraries that LD_LIBRARY_PATH should name, but that are not there under that name."""
    for name in case.winning:
        if name not in case.loader.folders.get("lib", ()):
            what = "the library that must win over the host's is not there"
            case.errors[MISSING, what].append(f"lib/{name}")


def _generations(case: _Case) -> None:
    """Two generations of a library that one process wants once."""
    for rule in case.libraries.exclusive:
        asked: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        there: dict[str, list[str]] = defaultdict(list)
        for file in case.inventory.files:
            for library in file.needed:
                generation = rule.of(library)
                if generation and not case.libraries.excuse(file.path, library):
                    asked[generation][library].append(file.path)
            if generation := rule.of(file.name):
                there[generation].append(file.path)
        if len(asked) > 1:
            case.errors.update(_mixed(rule.what, asked))
        elif len(there) > 1:
            what = f"{_both(rule.what, there)} are there, but only one is asked for"
            case.notes[MIXED, what] += chain.from_iterable(there.values())


def _mixed(
    what: str, asked: Mapping[str, Mapping[str, list[str]]]
) -> Iterator[tuple[tuple[str, str], list[str]]]:
    for generation, libraries in sorted(asked.items()):
        for library, paths in sorted(libraries.items()):
            sentence = (
                f"{_both(what, asked)} are mixed: {library}, of {what} {generation}, is wanted by"
            )
            yield (MIXED, sentence), paths


def _both(what: str, generations: Iterable[str]) -> str:
    return " and ".join(f"{what} {generation}" for generation in sorted(generations))


def _twice(case: _Case) -> None:
    """Libraries that lie in several folders, so that the order of loading decides."""
    wanted = {library for file in case.inventory.files for library in file.needed}
    places: dict[str, dict[str, ElfFile]] = defaultdict(dict)
    for folder, names in case.loader.folders.items():
        for name in names.keys() & wanted:
            places[name][f"{folder}/{name}"] = names[name]
    for name, found in places.items():
        builds = {file.build_id or file.path for file in found.values()}
        if len(builds) > 1:
            what = f"{name} is there {len(builds)} times; what is loaded first counts"
            case.notes[TWICE, what] += sorted(found)


def _searches(case: _Case) -> None:
    """Search paths that lead out of the environment, or that beat LD_LIBRARY_PATH."""
    for file in case.inventory.files:
        inside = len(list(search_folders(file)))
        for entry in file.runpath if inside < len(file.runpath) else ():
            if not entry:
                case.note(SEARCH, "the working folder is searched for libraries by", file.path)
            elif not entry.startswith("$"):
                case.note(SEARCH, f"{entry}, outside the environment, is searched by", file.path)
        if file.rpath and not set(case.winning).isdisjoint(file.needed):
            for name in set(case.winning) & set(file.needed):
                supply = case.loader.supply(file, name)
                if supply.files and supply.files[0].folder != "lib":
                    what = f"{supply.files[0].path} beats LD_LIBRARY_PATH, by the DT_RPATH of"
                    case.note(SEARCH, what, file.path)


def _others(case: _Case) -> None:
    """Files that this kind of host can't load, or should have of its own."""
    machines = [file.machine for file in case.inventory.files]
    usual = max(set(machines), key=machines.count) if machines else ""
    for file in case.inventory.files:
        if file.machine != usual:
            case.note(OTHER, f"made for {file.machine}", file.path)
        if matches(file.soname or file.name, case.libraries.driver):
            case.note(OTHER, "belongs to the NVIDIA driver, and may not fit the host's", file.path)
    for broken in case.inventory.unreadable:
        case.note(OTHER, broken.reason, broken.path)


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _glibc,
    _versions,
    _symbols,
    _supplies,
    _winners,
    _generations,
    _twice,
    _searches,
    _others,
)
