"""What `bundlectl models` says."""

from dataclasses import dataclass
from typing import Any

from bundlectl import models, sight
from bundlectl.layout import Layout
from bundlectl.process import Supervisor
from manifests.console import size
from manifests.errors import BundleError


@dataclass(frozen=True)
class Line:
    """One installed model; a model that several bundles brought is one."""

    name: str
    revision: str
    size: int  # bytes
    bundles: tuple[str, ...]  # that brought it
    stack: str
    adapters: tuple[str, ...]
    chosen: bool  # `start` serves it
    served: bool | None  # it is being served; None where this account can't see that


def lines(layout: Layout) -> tuple[Line, ...]:
    """Every installed model, by name and revision."""
    running = _running(layout)
    chosen = _chosen(layout)
    found: dict[str, list[models.Installed]] = {}
    for one in models.installed(layout):
        found.setdefault(one.folders[0], []).append(one)
    return tuple(
        Line(
            name=group[0].name,
            revision=group[0].model.revision,
            size=group[0].size,
            bundles=tuple(one.bundle for one in group),
            stack=group[0].manifest.stack,
            adapters=tuple(dict.fromkeys(a.name for one in group for a in one.adapters)),
            chosen=folder == chosen,
            served=None if running is None else folder in running,
        )
        for folder, group in sorted(found.items())
    )


def text(listed: tuple[Line, ...]) -> str:
    """The lines as a person reads them, one model each, its adapters below."""
    rows = []
    wide = max((len(line.name) for line in listed), default=0)
    for line in listed:
        mark = "*" if line.chosen else " "
        state = ", in service" if line.served else ""
        rows.append(
            f"{mark} {line.name.ljust(wide)}  {line.revision[:12]}  {size(line.size):>9}  "
            f"from {', '.join(line.bundles)}{state}"
        )
        rows += [f"    with the adapter {name}" for name in line.adapters]
    return "\n".join(rows) or "no model is installed"


def record(listed: tuple[Line, ...]) -> dict[str, Any]:
    """The lines as --json prints them."""
    return {"models": [vars(line) for line in listed]}


def _running(layout: Layout) -> tuple[str, ...] | None:
    """The folders that are served from; None where this account can't see that."""
    if sight.hidden(layout):
        return None
    status = Supervisor(layout).status()
    return status.service.folders if status.running and status.service else ()


def _chosen(layout: Layout) -> str:
    """The folder of the model that `start` serves; empty where it would serve none."""
    release = layout.current_release()
    try:
        return models.to_serve(layout, release).folders[0] if release else ""
    except BundleError:
        return ""
