"""What other rooms call: choose a flavour and lock its wheels; have everything that a lock names.

A resolution that was made before is taken again where the stack has a resolution date: the answer
is a function of the stack, the target and the sources, and is kept under their digest.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.lock import Target, Wheel
from manifests.records import to_data
from manifests.stack import Flavour, Repair, Stack
from wheelhouse import answers, remember
from wheelhouse.answers import Resolution
from wheelhouse.fetch import Fetcher, wanted
from wheelhouse.repair import origin, rebuild, repair
from wheelhouse.resolve import Resolver
from wheelhouse.sources import Sources
from wheelhouse.store import Progress, Store, silent
from wheelhouse.stubs import NOTHING, Below
from wheelhouse.upgrade import AFRESH, Additions, Upgrade, resolved

AUTO = "auto"


def _ignore(_note: str) -> None:
    """A listener who does not listen."""


def lock_wheels(
    stack: Stack,
    flavour: str,
    *,
    python: Path,
    target: Target,
    sources: Sources,
    store: Store,
    scratch: Path,
    upgrade: Upgrade = AFRESH,
    below: Below = NOTHING,
    offline: bool = False,
    progress: Progress = silent,
    tell: Callable[[str], None] = _ignore,
) -> Resolution:
    """The flavour that was taken and its wheels, sorted by name.

    `flavour` is a name, or AUTO for the first whose needs a source offers; `python` an interpreter
    of the target's Python; `below` what the host has, of which as much as possible is taken. Wheels
    that have to be repaired are fetched (`progress` hears of their bytes) and repaired. `tell`
    hears what was passed over.

    Raises UsageError for an unknown flavour, SourceError, TargetError or IntegrityError.
    """
    question = [stack.name, flavour, to_data(stack), *_asked(upgrade)]
    if below != NOTHING:
        question.append({"below": to_data(below.distributions)})
    kept = answers.place(store, question, target, sources)
    known = answers.recall(kept, _constant(stack.resolution_date, upgrade), offline)
    if known is None:
        resolver = Resolver(sources, python, target, stack.resolution_date, scratch)
        chosen = _choose(stack, flavour, resolver)
        derived = _repaired(chosen.repairs, resolver, sources, store, progress)
        more = Additions(scratch / "additions", store)
        more.add(derived)
        wheels = resolved(chosen.requirements, resolver, sources, more, upgrade, below)
        known = Resolution(chosen.name, wheels, tuple(resolver.notes), resolver.provided)
        remember.keep(kept, known)
    for note in known.notes:
        tell(note)
    return known


def lock_requirements(
    requirements: Sequence[str],
    *,
    date: str,
    python: Path,
    target: Target,
    sources: Sources,
    store: Store,
    scratch: Path,
    upgrade: Upgrade = AFRESH,
    offline: bool = False,
    tell: Callable[[str], None] = _ignore,
) -> tuple[Wheel, ...]:
    """The closure of plain requirements, for example of the bundle's own runtime.

    Raises SourceError or TargetError.
    """
    question = [*requirements, date, *_asked(upgrade)]
    kept = answers.place(store, question, target, sources)
    known = answers.recall(kept, _constant(date, upgrade), offline)
    if known is None:
        resolver = Resolver(sources, python, target, date, scratch)
        more = Additions(scratch / "additions", store)
        wheels = resolved(requirements, resolver, sources, more, upgrade)
        known = Resolution("", wheels, tuple(resolver.notes))
        remember.keep(kept, known)
    for note in known.notes:
        tell(note)
    return known.wheels


def volume(wheels: Iterable[Wheel]) -> int:
    """The bytes of which `obtain` tells for wheels; 0 where a source does not say all sizes."""
    sizes = [(wheel.derived or wheel).size for wheel in wheels]
    return sum(sizes) if all(sizes) else 0


def obtain(
    wheels: Iterable[Wheel],
    stack: Stack,
    flavour: str,
    *,
    sources: Sources,
    store: Store,
    offline: bool = False,
    progress: Progress = silent,
) -> None:
    """Have every wheel of a lock in the store: fetched, or rebuilt from its fetched origin.

    Raises SourceError naming what can't be had, IntegrityError where bytes are not the locked ones.
    """
    wheels = tuple(wheels)
    derived = [w for w in wheels if w.derived and not store.usable(w.sha256, w.filename, w.size)]
    published = [wheel for wheel in wheels if wheel.derived is None]
    published += [origin(wheel) for wheel in derived]
    Fetcher(sources, store, offline=offline).fetch(map(wanted, published), progress)
    repairs = {change.wheel: change for change in _named(stack, flavour).repairs}
    for wheel in derived:
        published_wheel = origin(wheel)
        change = repairs.get(f"{published_wheel.name}=={published_wheel.version}")
        if change is None:
            raise IntegrityError(
                f"{wheel.filename}: this release does not know how it was repaired",
                mend="use the release that made the lock, or make it again with `bundle lock`",
            )
        rebuild(wheel, change, store)


def _asked(upgrade: Upgrade) -> list[object]:
    return [] if upgrade == AFRESH else [to_data(upgrade)]


def _constant(date: str, upgrade: Upgrade) -> bool:
    """Whether the answer stays the same for ever: the newest release of a package does not."""
    return bool(date) and upgrade == AFRESH


def _named(stack: Stack, name: str) -> Flavour:
    for flavour in stack.flavours:
        if flavour.name == name:
            return flavour
    known = ", ".join(flavour.name for flavour in stack.flavours)
    raise UsageError(f"{stack.name} has no flavour {name!r}", mend=f"choose one of: {known}")


def _choose(stack: Stack, name: str, resolver: Resolver) -> Flavour:
    if name != AUTO:
        return _named(stack, name)
    for flavour in stack.flavours:
        if all(resolver.offers(need) for need in flavour.needs):
            return flavour
    needs = sorted({need for flavour in stack.flavours for need in flavour.needs})
    raise SourceError(
        f"no source offers what {stack.name} needs: {', '.join(needs)}",
        mend="name an index or a folder that has it (--index-url, --find-links)",
    )


def _repaired(
    repairs: Sequence[Repair],
    resolver: Resolver,
    sources: Sources,
    store: Store,
    progress: Progress,
) -> list[Wheel]:
    origins = [resolver.pick(change.wheel) for change in repairs]
    Fetcher(sources, store).fetch(map(wanted, origins), progress)
    return [
        repair(store.verified(published.sha256, published.filename), published, change, store)
        for published, change in zip(origins, repairs, strict=True)
    ]
