"""What an installation consists of, as the steps that take it away; see bundlectl.uninstall.

What no step names is none of ours: it stays, and so does the folder that it lies in. No step leads
through a link.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bundlectl import discard, removal
from bundlectl.layout import Layout
from bundlectl.replace import is_folder
from manifests import bundle, placement, tree
from manifests.bundle import Manifest


@dataclass(frozen=True)
class Wish:
    """What the operator wants to keep."""

    models: bool = False
    settings: bool = False


@dataclass(frozen=True)
class Step:
    """One thing to remove: all of it, or what entries list, or a folder if it is empty then."""

    path: Path
    entries: tuple[tree.Entry, ...] | None = None
    if_empty: bool = False
    aside: bool = False  # another name first: half of it would look like something else


@dataclass(frozen=True)
class _Row:
    """What in a folder is bundlectl's: files, by patterns, or all that is in it."""

    folder: str
    patterns: tuple[str, ...] = ()


_SETTINGS = _Row("etc", ("serve.toml", "api-key", ".serve.toml.new", ".api-key.*"))
_STATE = _Row("state", ("history", "*.json", "*.lock", ".*.new"))
_LINK = _Row("", (placement.CURRENT, ".current.new"))
#: Below the folder of an instance, in the order of removal; without patterns: whole.
_INSTANCE = (_Row("cache"), _Row("state/run"), _Row("state/logs", ("*.log", "*.log.*")), _SETTINGS)
_COMMAND = _Row("bin", ("bundlectl", ".bundlectl.new"))
_PAPERS = (
    _Row("state/journal", ("*.txt",)),
    _Row("state/receipts", ("*.json", f"*{placement.TRASH}", ".*.new")),
)
#: What is on its way in or out, in the folders of releases, models and instances.
_UNDERWAY = (f"*{placement.PARTIAL}", f".*{placement.TRASH}", ".*.new")
#: Kept with the settings: which bundles are too old to be installed.
_SEQUENCES = "sequences.json"


def known(layout: Layout, medium: Manifest | None) -> dict[str, Manifest]:
    """The releases whose content is known; that which this program runs from comes last.

    `medium` is the manifest of the bundle at hand: it stands in for one that is damaged. Raises
    OSError.
    """
    found = {}
    for path in _inside(layout.releases):
        manifest = removal.identified(layout, path.name)
        if manifest is None and medium is not None:
            named = bundle.release_id(medium.name, bundle.digest_of(medium.dump()))
            manifest = medium if named == path.name else None
        if manifest is not None:
            found[path.name] = manifest
    here = Path(sys.prefix).resolve()
    last = [name for name in found if here.is_relative_to(layout.release(name).resolve())]
    return {name: found[name] for name in (*(n for n in found if n not in last), *last)}


def steps(layout: Layout, wish: Wish, manifests: Mapping[str, Manifest]) -> Iterator[Step]:
    """Everything to remove, in order, but for the folder of the installation itself.

    Models go before the releases whose manifests list them, and the marker, which makes the folder
    ours, last of all: whatever a kill leaves, the same steps are found again. Raises OSError.
    """
    models: removal.Folders = {}
    for manifest in manifests.values():
        models |= removal.part_folders(manifest)
    releases = [removal.own_folder(name, manifest) for name, manifest in manifests.items()]
    yield from _listed(layout, {} if wish.models else models)
    yield from _underway(layout.models)
    for folder in releases[:-1]:
        yield from _listed(layout, folder)
    yield from _underway(layout.releases)
    for one in reversed(layout.every()):
        rows = [row for row in _INSTANCE if not (wish.settings and row is _SETTINGS)]
        for row in (*rows, *((_STATE, _LINK) if one.instance else ())):
            yield from _row(one.home, layout.prefix, row)
    yield from _underway(layout.instances)
    yield from _row(layout.prefix, layout.prefix, _COMMAND)
    for folder in releases[-1:]:
        yield from _listed(layout, folder)
    for place in (layout.models, layout.releases, layout.instances):
        yield Step(place, if_empty=True)
    for row in (*_PAPERS, _STATE, _LINK):
        for step in _row(layout.prefix, layout.prefix, row):
            if step.path != layout.prefix and not (wish.settings and step.path.name == _SEQUENCES):
                yield step
    if not (wish.models or wish.settings):
        yield Step(layout.marker)
    yield Step(layout.state, if_empty=True)


def kept(layout: Layout, wish: Wish) -> list[str]:
    """What stays because the operator wants it, below the prefix."""
    settings = [one.etc for one in layout.every() if wish.settings]
    paths = [*settings, *((layout.models,) if wish.models else ())]
    return [str(path.relative_to(layout.prefix)) for path in paths if path.exists()]


def left(layout: Layout, wish: Wish, planned: Iterable[Step]) -> list[str]:
    """What stays because no step names it, or because it is a mount point, below the prefix.

    Raises OSError.
    """
    planned = list(planned)
    whole = {step.path for step in planned if step.entries is None and not step.if_empty}
    listed = {step.path: step.entries for step in planned if step.entries is not None}
    folders = {step.path for step in planned if step.if_empty}
    mounts = discard.mounts(layout.prefix)
    wanted = {layout.prefix / path for path in kept(layout, wish)}
    wanted |= {layout.marker, layout.state / _SEQUENCES}
    wanted |= {folder / discard.OF_THE_DISK for folder in (layout.prefix, *mounts)}

    def walk(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if path in whole or path in wanted:
                continue
            if path in listed:
                yield from (path / name for name in discard.strangers(path, listed[path] or ()))
            elif path in folders and is_folder(path):
                yield from walk(path)
            else:
                yield path

    emptied = {
        path
        for path in mounts
        if path in (folders | {layout.prefix})
        or any(path.is_relative_to(place) for place in (*whole, *listed))
    }
    marks = [f"{path.relative_to(layout.prefix)} (a mount point)" for path in sorted(emptied)]
    return [*(str(path.relative_to(layout.prefix)) for path in walk(layout.prefix)), *marks]


def _inside(folder: Path) -> list[Path]:
    """The folders in a folder, which is none where a link or nothing lies in its place."""
    if not is_folder(folder):
        return []
    return sorted(path for path in folder.iterdir() if is_folder(path))


def _listed(layout: Layout, folders: removal.Folders) -> Iterator[Step]:
    """Folders of releases and models: whole ones where nothing else lies in them."""
    for name, entries in folders.items():
        folder = layout.prefix / name
        if is_folder(folder.parent) and is_folder(folder):
            alone = not discard.strangers(folder, entries)
            yield Step(folder, aside=True) if alone else Step(folder, entries)


def _underway(folder: Path) -> Iterator[Step]:
    for path in _inside(folder):
        if any(fnmatchcase(path.name, pattern) for pattern in _UNDERWAY):
            yield Step(path)


def _row(home: Path, prefix: Path, row: _Row) -> Iterator[Step]:
    folder = home / row.folder
    between = [folder, *(path for path in folder.parents if path.is_relative_to(prefix))]
    if not all(map(is_folder, between)):
        return
    if not row.patterns:
        yield Step(folder)
        return
    for path in sorted(folder.iterdir()):
        ours = any(fnmatchcase(path.name, pattern) for pattern in row.patterns)
        if ours and not is_folder(path):
            yield Step(path)
    yield Step(folder, if_empty=True)
