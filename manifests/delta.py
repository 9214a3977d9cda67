"""Deltas: a whole bundle, carried as what the installed release of another bundle lacks.

A delta is an encoding for the way. Its archive holds the runtime and the documents as they are; an
environment's archive with all links, folders and volatile files, and with those files that the
base's environment has nowhere; and those files of models that the base's models have nowhere.
Everything else is taken from the base's installation, by sha256. What is installed in the end is
the whole bundle, with its own manifest; nothing there tells how it came.

What is carried follows from the two whole manifests alone, so both sides come to the same.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from manifests import tree
from manifests.errors import IntegrityError
from manifests.members import ADAPTER, ENVIRONMENT, MODEL, Member
from manifests.names import DIGEST, MEDIA_NAME

#: Members that a base can stand in for: files of models and adapters.
_SHARED = (MODEL, ADAPTER)
#: Digits of the base's manifest in the name of a delta's folder, as many as people compare.
_SHOWN = 8


@dataclass(frozen=True)
class Delta:
    """What a delta is made of. `base_sha256` and `manifest_sha256` are those of whole bundles."""

    base: str  # name of the bundle that has to be installed
    base_sha256: str  # of its manifest
    manifest_sha256: str  # of the manifest that is installed in the end
    members: tuple[Member, ...]  # of that manifest
    runs: tuple[int, ...] = ()  # of its environment's entries: so many carried, so many taken, …


@dataclass(frozen=True)
class Share:
    """Some of the files of a bundle, as they are once installed."""

    files: int
    size: int  # bytes


def folder_name(name: str, base_sha256: str) -> str:
    """What a delta's folder on a medium is called, and its archive but for the ending."""
    return f"{name}+delta-{base_sha256[:_SHOWN]}"


def runs_of(environment: Sequence[tree.Entry], base: Iterable[tree.Entry]) -> tuple[int, ...]:
    """How many entries of an environment are carried, then taken from the base, and so on.

    The first number may be 0.
    """
    there = {entry.sha256 for entry in base if is_plain(entry)}
    runs: list[int] = []
    for taken, group in groupby(environment, lambda e: is_plain(e) and e.sha256 in there):
        runs += [0] if taken and not runs else []
        runs.append(sum(1 for _ in group))
    return tuple(runs)


def is_plain(entry: tree.Entry) -> bool:
    """Whether an installation holds the entry's bytes as the manifest names them."""
    return entry.kind == tree.FILE and entry.rewrite is None


def split(
    environment: Sequence[tree.Entry], runs: Iterable[int]
) -> tuple[tuple[tree.Entry, ...], tuple[tree.Entry, ...]]:
    """The entries that are carried, and those that are taken, each in the listing's order."""
    sides: tuple[list[tree.Entry], list[tree.Entry]] = ([], [])
    place = 0
    for number, run in enumerate(runs):
        sides[number % 2].extend(environment[place : place + run])
        place += run
    return tuple(sides[0]), tuple(sides[1])


def carried_members(members: Iterable[Member], base: Iterable[Member]) -> Iterator[Member]:
    """The members of a whole bundle that its delta carries too, the environment's archive apart."""
    there = {member.sha256 for member in base if member.role in _SHARED}
    for member in members:
        if member.role not in _SHARED or member.sha256 not in there:
            yield member


def taken_members(delta: Delta, carried: Iterable[Member]) -> tuple[Member, ...]:
    """The members that come from the base."""
    here = {member.path for member in carried}
    return tuple(member for member in delta.members if member.path not in here)


def share(taken: Iterable[tree.Entry | Member]) -> Share:
    """How many files there are, and their bytes; links and folders don't count."""
    sizes = [one.size for one in taken if isinstance(one, Member) or one.kind == tree.FILE]
    return Share(len(sizes), sum(sizes))


def check(
    delta: Delta, members: Sequence[Member], environment: Sequence[tree.Entry], where: str
) -> None:
    """Refuse a delta that no honest packer writes, as far as that can be told without its base.

    `members` are those of the delta's own archive. Raises IntegrityError.
    """
    if not MEDIA_NAME.fullmatch(delta.base):
        raise IntegrityError(f"{where}: the base's name {delta.base!r} is not a plain name")
    for digest in (delta.base_sha256, delta.manifest_sha256):
        if not DIGEST.fullmatch(digest):
            raise IntegrityError(f"{where}: {digest!r} is not the sha256 of a manifest")
    if delta.base_sha256 == delta.manifest_sha256:
        raise IntegrityError(f"{where}: the delta names itself as its base")
    _check_runs(delta.runs, environment, where)
    _check_members(delta, members, where)


def _check_runs(runs: Sequence[int], environment: Sequence[tree.Entry], where: str) -> None:
    if any(run < (number > 0) for number, run in enumerate(runs)) or sum(runs) != len(environment):
        raise IntegrityError(f"{where}: the delta's runs are not those of its environment")
    for entry in split(environment, runs)[1]:
        if not is_plain(entry):
            raise IntegrityError(f"{where}: {entry.path} can't be taken from a base")


def _check_members(delta: Delta, members: Sequence[Member], where: str) -> None:
    """Nothing but a whole's member is carried, in its order; just files of models are left out."""
    left = iter(members)
    carried = next(left, None)
    for member in delta.members:
        if carried is not None and carried.path == member.path:
            if carried != member and member.role != ENVIRONMENT:
                raise IntegrityError(f"{where}: {member.path} differs from the whole bundle's")
            carried = next(left, None)
        elif member.role not in _SHARED:
            raise IntegrityError(f"{where}: the member {member.path} is missing")
    if carried is not None:
        raise IntegrityError(f"{where}: {carried.path} is no member of the whole bundle")


def check_base(
    delta: Delta,
    carried: Sequence[Member],
    environment: Sequence[tree.Entry],
    base_members: Collection[Member],
    base_environment: Sequence[tree.Entry],
) -> None:
    """Refuse a delta that is not the one between its whole bundle and its base.

    Raises IntegrityError where it counts on what the base has not, or carries what it has.
    """
    wanted = {member.path for member in carried_members(delta.members, base_members)}
    found = {member.path for member in carried}
    odd = sorted(wanted ^ found)
    if delta.runs != runs_of(environment, base_environment):
        right = set(split(environment, runs_of(environment, base_environment))[1])
        odd += sorted(entry.path for entry in right ^ set(split(environment, delta.runs)[1]))
    if odd:
        raise IntegrityError(
            f"the delta does not fit its base {delta.base}: {odd[0]}",
            why=f"{len(odd)} files are carried that the base has, or left out that it has not",
            mend="make the delta again, or carry the whole bundle",
        )
