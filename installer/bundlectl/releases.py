"""What `bundlectl releases` says: the releases of an installation, and where they serve."""

import time
from dataclasses import dataclass
from typing import Any

from bundlectl import discard, history, readiness
from bundlectl.layout import Layout
from manifests import placement
from manifests.bundle import Manifest
from manifests.console import size
from manifests.errors import BundleError, from_oserror


@dataclass(frozen=True)
class Line:
    """One installed bundle."""

    release: str
    name: str
    sequence: int  # grows with every lock of the bundle
    created: int  # seconds since the epoch
    tool: str  # that made it
    stack: str
    flavour: str
    models: tuple[str, ...]
    model_only: bool
    size: int  # bytes on the disk, without models
    models_size: int  # bytes on the disk of its models and adapters, which others may share
    installed: int  # seconds since the epoch
    in_service: tuple[str, ...] = ()  # instances whose `current` it is
    previous: tuple[str, ...] = ()  # instances that `rollback` takes back to it
    put_on: str = ""  # the host's interpreter that an overlay is on top of
    problem: str = ""  # what is wrong with its papers; empty: receipt and manifest agree


def lines(layout: Layout) -> tuple[Line, ...]:
    """Every installed bundle, by name.

    Raises FilesystemError where the disk can't be read.
    """
    current: dict[str, list[str]] = {}
    previous: dict[str, list[str]] = {}
    for instance in layout.every():
        current.setdefault(instance.current_release(), []).append(instance.called)
        if (before := history.before(instance)) is not None:
            previous.setdefault(before.release, []).append(instance.called)
    found = []
    for release in placement.installed_releases(layout.prefix):
        places = tuple(current.get(release, ())), tuple(previous.get(release, ()))
        try:
            found.append(_line(layout, release, *places))
        except OSError as error:
            raise from_oserror(error, "looking at the releases") from error
    return tuple(found)


def _line(
    layout: Layout, release: str, in_service: tuple[str, ...], previous: tuple[str, ...]
) -> Line:
    manifest, problem = _read(layout, release)
    folders = [layout.prefix / part.folder for part in manifest.parts()] if manifest else []
    return Line(
        release=release,
        name=manifest.name if manifest else release.rpartition("-")[0],
        sequence=manifest.sequence if manifest else 0,
        created=manifest.created if manifest else 0,
        tool=manifest.tool if manifest else "",
        stack=manifest.stack if manifest else "",
        flavour=manifest.flavour if manifest else "",
        models=tuple(model.name for model in manifest.models) if manifest else (),
        model_only=manifest.model_only if manifest else False,
        size=discard.size([layout.release(release)]),
        models_size=discard.size(folders),
        installed=installed_at(layout, release),
        in_service=in_service,
        previous=previous,
        put_on=_put_on(layout, release),
        problem=problem,
    )


def _read(layout: Layout, release: str) -> tuple[Manifest | None, str]:
    try:
        return placement.load_manifest(layout.prefix, release)[0], ""
    except BundleError as error:
        return None, error.what


def installed_at(layout: Layout, release: str) -> int:
    """Seconds since the epoch when a release was installed; 0 where its receipt can't say."""
    try:
        path = placement.receipt_path(layout.prefix, release)
        return placement.load_receipt(path).installed
    except (BundleError, OSError):
        return 0


def _put_on(layout: Layout, release: str) -> str:
    try:
        base = readiness.put_on(layout, release)
    except (BundleError, OSError):
        return ""
    return base.python if base is not None else ""


def text(listed: tuple[Line, ...]) -> str:
    """The lines as a person reads them."""
    rows = []
    for line in listed:
        rows.append(f"{'*' if line.in_service else ' '} {line.release}")
        kind = "models alone" if line.model_only else line.stack
        rows.append(
            f"    {kind}, lock {line.sequence}, installed {_day(line.installed)}, "
            f"{size(line.size)} and {size(line.models_size)} of models: {', '.join(line.models)}"
        )
        rows += [f"    on top of {line.put_on}"] if line.put_on else []
        rows += [f"    in service: {', '.join(line.in_service)}"] if line.in_service else []
        rows += [f"    served before: {', '.join(line.previous)}"] if line.previous else []
        rows += [f"    DAMAGED: {line.problem}"] if line.problem else []
    return "\n".join(rows) or "no release is installed"


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds)) if seconds else "at some time"


def record(listed: tuple[Line, ...]) -> dict[str, Any]:
    """The lines as --json prints them."""
    return {"releases": [vars(line) for line in listed]}
