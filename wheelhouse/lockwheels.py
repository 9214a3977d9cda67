"""What other rooms call: choose a flavour and lock its wheels; have everything that a lock names.

A resolution that was made before is taken again where the stack has a resolution date: the answer
is a function of the stack, the target and the sources, and is kept under their digest.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from manifests import canonical
from manifests.digests import sha256
from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.lock import Target, Wheel
from manifests.records import from_data, to_data
from manifests.stack import Flavour, Repair, Stack
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.repair import origin, rebuild, repair
from wheelhouse.resolve import Resolver
from wheelhouse.sources import Sources, local_path
from wheelhouse.store import Progress, Store, silent

AUTO = "auto"


@dataclass(frozen=True)
class Resolution:
    """One answer, as it is kept."""

    flavour: str
    wheels: tuple[Wheel, ...]


def lock_wheels(
    stack: Stack,
    flavour: str,
    *,
    python: Path,
    target: Target,
    sources: Sources,
    store: Store,
    scratch: Path,
    offline: bool = False,
    progress: Progress = silent,
) -> tuple[str, tuple[Wheel, ...]]:
    """The flavour that was taken and its wheels, sorted by name.

    `flavour` is a name, or AUTO for the first whose needs a source offers; `python` an interpreter
    of the target's Python. Wheels that have to be repaired are fetched (`progress` hears of their
    bytes) and repaired.

    Raises UsageError for an unknown flavour, SourceError, TargetError or IntegrityError.
    """
    kept = _kept(store, [stack.name, flavour, to_data(stack)], target, sources)
    if (known := _recall(kept, stack.resolution_date, offline)) is not None:
        return known.flavour, known.wheels
    resolver = Resolver(sources, python, target, stack.resolution_date, scratch)
    chosen = _choose(stack, flavour, resolver)
    derived = _repaired(chosen.repairs, resolver, sources, store, progress)
    links = _links(scratch / "repaired", derived, store)
    by_name = {wheel.filename: wheel for wheel in derived}
    wheels = tuple(
        by_name.get(wheel.filename, wheel)
        for wheel in resolver.resolve(chosen.requirements, extra_links=links)
    )
    _keep(kept, Resolution(chosen.name, wheels))
    return chosen.name, wheels


def lock_requirements(
    requirements: Sequence[str],
    *,
    date: str,
    python: Path,
    target: Target,
    sources: Sources,
    store: Store,
    scratch: Path,
    offline: bool = False,
) -> tuple[Wheel, ...]:
    """The closure of plain requirements, for example of the bundle's own runtime.

    Raises SourceError or TargetError.
    """
    kept = _kept(store, [*requirements, date], target, sources)
    if (known := _recall(kept, date, offline)) is not None:
        return known.wheels
    wheels = Resolver(sources, python, target, date, scratch).resolve(requirements)
    _keep(kept, Resolution("", wheels))
    return wheels


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
    derived = [w for w in wheels if w.derived is not None and not store.has(w.sha256)]
    published = [wheel for wheel in wheels if wheel.derived is None]
    published += [origin(wheel) for wheel in derived]
    Fetcher(sources, store, offline=offline).fetch(map(_wanted, published), progress)
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
    Fetcher(sources, store).fetch(map(_wanted, origins), progress)
    return [
        repair(store.verified(published.sha256, published.filename), published, change, store)
        for published, change in zip(origins, repairs, strict=True)
    ]


def _wanted(wheel: Wheel) -> Wanted:
    return Wanted(wheel.filename, wheel.url, wheel.sha256, wheel.size, project=wheel.name)


def _links(folder: Path, wheels: Iterable[Wheel], store: Store) -> Path:
    folder.mkdir(parents=True)
    for wheel in wheels:
        (folder / wheel.filename).symlink_to(store.path(wheel.sha256))
    return folder


def _kept(store: Store, question: list[object], target: Target, sources: Sources) -> Path:
    """Where the answer to a question is kept; local folders count with what they hold now."""
    folders = [path for place in sources.find_links if (path := local_path(place)) is not None]
    files = [
        [file.name, file.stat().st_size, file.stat().st_mtime_ns]
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.iterdir())
    ]
    hasher = sha256()
    hasher.update(canonical.dumps([question, to_data(target), list(sources.public()), files]))
    return store.root.parent / "resolutions" / f"{hasher.hexdigest()}.json"


def _recall(path: Path, date: str, offline: bool) -> Resolution | None:
    """An answer given before; one without a resolution date only where nobody may be asked.

    Raises SourceError where there is none and nobody may be asked.
    """
    if path.is_file() and (date or offline):
        with suppress(ValueError, IntegrityError):  # it went bad: ask again
            return from_data(Resolution, canonical.unsealed(path.read_bytes()), str(path))
    if offline:
        raise SourceError(
            "--offline, and this stack was not resolved before for this target and these sources",
            mend="run once without --offline, or follow a bundle.lock",
        )
    return None


def _keep(path: Path, resolution: Resolution) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".partial")
    growing.write_bytes(canonical.sealed(to_data(resolution)))
    growing.rename(path)
