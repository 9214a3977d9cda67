"""Which releases and models nobody needs any more, and their removal."""

from dataclasses import dataclass
from typing import Any

from bundlectl import discard, history, inuse, models, releases, removal
from bundlectl.layout import Layout
from manifests import placement
from manifests.bundle import Manifest
from manifests.console import size
from manifests.errors import from_oserror
from manifests.names import printable


@dataclass(frozen=True)
class Wish:
    """What the operator asked for."""

    keep: int | None = None  # releases beside those in service; None: those that served before
    models: bool = False  # bundles of models alone, too


@dataclass(frozen=True)
class Kept:
    """Something that stays, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What is removed and what stays. Paths are below the prefix."""

    releases: tuple[str, ...]
    models: tuple[str, ...]  # folders of models and adapters that nothing else names
    kept: tuple[Kept, ...]
    freed: int  # bytes on the disk
    resumed: int = 0  # bytes on the disk that a killed run has left
    dry_run: bool = False

    def as_record(self) -> dict[str, Any]:
        """The plan as --json prints it."""
        return {**vars(self), "kept": [vars(one) for one in self.kept]}

    def text(self) -> str:
        """The plan as a person reads it."""
        done = "would be removed" if self.dry_run else "removed"
        gone = [f"{placement.RELEASES}/{name}" for name in self.releases]
        rows = [f"{done}: {path}" for path in (*gone, *self.models)]
        rows += [f"kept: {one.path}: {printable(one.why)}" for one in self.kept]
        total = size(self.freed + self.resumed)
        rows.append(f"{total} {'would be ' * self.dry_run}freed")
        return "\n".join(rows)


def plan(layout: Layout, wish: Wish) -> Plan:
    """What `prune` would do. Writes nothing.

    Raises FilesystemError where it can't be seen what is in use.
    """
    try:
        return _plan(layout, wish)
    except OSError as error:
        raise from_oserror(error, "looking for what nobody needs") from error


def prune(layout: Layout, wish: Wish) -> Plan:
    """Remove it. Nothing else may install or switch meanwhile.

    Raises UsageError where somebody does, FilesystemError.
    """
    with inuse.alone(layout):
        planned = plan(layout, wish)
        try:
            removal.remove(layout, planned.releases)
        except OSError as error:
            raise from_oserror(error, "removing what nobody needs") from error
    return planned


def _plan(layout: Layout, wish: Wish) -> Plan:
    installed = placement.installed_releases(layout.prefix)
    used = {use.folder: use.user for use in inuse.uses(layout)}
    reasons = _reasons(layout, wish, installed)
    kept, doomed = [], dict[str, Manifest]()
    for release in installed:
        path = f"{placement.RELEASES}/{release}"
        manifest = removal.identified(layout, release)
        if release in reasons:
            kept.append(Kept(path, reasons[release]))
        elif path in used:
            kept.append(Kept(path, f"{used[path]} runs from it"))
        elif manifest is None:
            kept.append(Kept(path, f"its papers are damaged; mend it: {placement.REPAIR}"))
        elif manifest.model_only and not wish.models:
            kept.append(Kept(path, "models alone; --models removes those that nothing serves"))
        else:
            doomed[release] = manifest
    orphans = _settle(layout, installed, doomed, used, kept)
    left = [*discard.leftovers(layout.releases), *discard.leftovers(layout.models)]
    return Plan(
        releases=tuple(doomed),
        models=orphans,
        kept=tuple(kept),
        freed=discard.size(
            [*map(layout.release, doomed), *(layout.prefix / folder for folder in orphans)]
        ),
        resumed=discard.size(left),
    )


def _reasons(layout: Layout, wish: Wish, installed: list[str]) -> dict[str, str]:
    """Releases that are wanted, and why."""
    reasons: dict[str, str] = {}

    def want(served: history.Served | None, why: str) -> None:
        for name in (served.release, served.bundle) if served else ():
            reasons.setdefault(name, why)

    for one in layout.every():
        if release := one.current_release():
            reasons.setdefault(release, f"in service of the instance {one.called}")
        want(history.present(one), f"in service of the instance {one.called}")
    if wish.keep is None:
        for one in layout.every():
            want(history.before(one), f"served the instance {one.called} before")
        return reasons
    further = [name for name in _latest_first(layout, installed) if name not in reasons]
    for name in further[: wish.keep]:
        reasons[name] = f"among the {wish.keep} to keep"
        for one in layout.every():
            choice = models.load(one).releases.get(name)
            reasons.setdefault(choice.bundle if choice else name, reasons[name])
    return reasons


def _latest_first(layout: Layout, installed: list[str]) -> list[str]:
    """Releases that can serve, the one that served or was installed last first."""
    served = {
        entry.release: (entry.since, place)
        for one in layout.every()
        for place, entry in enumerate(history.load(one))
    }
    alone = {
        name
        for name in installed
        if (manifest := removal.identified(layout, name)) is not None and manifest.model_only
    }
    last = {name: served.get(name, (releases.installed_at(layout, name), -1)) for name in installed}
    return sorted(set(installed) - alone, key=lambda name: last[name], reverse=True)


def _settle(
    layout: Layout,
    installed: list[str],
    doomed: dict[str, Manifest],
    used: dict[str, str],
    kept: list[Kept],
) -> tuple[str, ...]:
    """Spare each release of which something can't be removed; gives the models that go."""
    while True:
        going = _going(layout, installed, doomed)
        obstacles = {name: _obstacle(layout, folders, used) for name, folders in going.items()}
        if not any(obstacles.values()):
            both = dict.fromkeys(folder for folders in going.values() for folder in folders)
            return tuple(folder for folder in both if folder.startswith(f"{placement.MODELS}/"))
        for name in (name for name, why in obstacles.items() if why):
            kept.append(Kept(f"{placement.RELEASES}/{name}", obstacles[name]))
            del doomed[name]


def _going(
    layout: Layout, installed: list[str], doomed: dict[str, Manifest]
) -> dict[str, removal.Folders]:
    """What goes with each release: its own folder, and the models that nothing left needs."""
    rest = removal.needed(layout, (name for name in installed if name not in doomed))
    return {
        name: removal.own_folder(name, manifest)
        | {
            folder: entries
            for folder, entries in removal.part_folders(manifest).items()
            if rest is not None and folder not in rest
        }
        for name, manifest in doomed.items()
    }


def _obstacle(layout: Layout, folders: removal.Folders, used: dict[str, str]) -> str:
    """Why folders can't be removed; empty where they can."""
    for folder, entries in folders.items():
        if folder in used:
            return f"{used[folder]} uses {folder}"
        if (layout.prefix / folder).is_symlink():
            return f"{folder} is a link, and no link is followed"
        if strangers := discard.strangers(layout.prefix / folder, entries):
            return f"{folder}/{strangers[0]} is not of the bundle; look at it, and move it away"
    return ""
