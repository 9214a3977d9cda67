"""Take an installation away: what its manifests name and what bundlectl made, and nothing else."""

import os
import time
from dataclasses import dataclass, replace
from typing import Any

from bundlectl import (
    discard,
    dismantling,
    environment,
    inuse,
    removal,
    service,
    serviceunit,
)
from bundlectl.dismantling import Step, Wish
from bundlectl.layout import MARKER, Layout
from bundlectl.replace import is_folder
from manifests import placement
from manifests.bundle import Manifest
from manifests.console import size
from manifests.errors import UsageError, from_oserror
from manifests.names import printable

_LINGERING = 5  # seconds for programs to end after the server that they waited for


@dataclass(frozen=True)
class Plan:
    """What is removed, in order, and what is left because nothing says that it is ours."""

    prefix: str
    steps: tuple[Step, ...]
    releases: tuple[str, ...]
    kept: tuple[str, ...]  # below the prefix, because the operator wants it
    left: tuple[str, ...]  # below the prefix
    freed: int  # bytes on the disk
    told: tuple[str, ...] = ()  # what the host's service manager could not do by itself
    dry_run: bool = False

    def as_record(self) -> dict[str, Any]:
        """The plan as --json prints it."""
        names = ("prefix", "releases", "kept", "left", "freed", "told", "dry_run")
        return {name: getattr(self, name) for name in names}

    def text(self) -> str:
        """The plan as a person reads it."""
        done = "would be removed" if self.dry_run else "removed"
        rows = [f"{done}: {placement.RELEASES}/{name}" for name in self.releases]
        rows += [f"kept: {path}" for path in self.kept]
        rows += [f"left, it is none of ours: {printable(path)}" for path in self.left]
        rows += self.told
        what = "all else in" if self.kept or self.left else "all of"
        rows.append(f"{done}: {what} {self.prefix} ({size(self.freed)})")
        return "\n".join(rows)


def check(layout: Layout) -> None:
    """Refuse a folder that is not, beyond doubt, an installation of this account.

    Raises UsageError, FilesystemError.
    """
    try:
        why = _doubt(layout)
    except OSError as error:
        raise from_oserror(error, "looking at the installation") from error
    if why:
        raise UsageError(
            f"{layout.prefix} is not uninstalled: {why}",
            mend="name the installation's own folder with --prefix",
        )


def _doubt(layout: Layout) -> str:
    """Why a folder may not be taken away; empty where it may."""
    prefix = layout.prefix
    if prefix.is_symlink():
        return f"it is a link to {prefix.readlink()}"
    if not prefix.is_dir():
        return "there is no such folder"
    if (owner := prefix.stat().st_uid) != os.geteuid():
        return f"it belongs to another account (uid {owner})"
    ours = is_folder(layout.state) and layout.marker.is_file() and not layout.marker.is_symlink()
    if not ours and not _is_rest(layout):
        return f"it holds no {layout.state.name}/{MARKER}, so it is no installation"
    foreign = sorted(path.name for path in prefix.iterdir() if path.name not in _TOP)
    if prefix.is_mount() and foreign:
        return f"it is a whole file system, and holds something else ({printable(foreign[0])})"
    return ""


#: What lies right below the prefix.
_TOP = frozenset(
    {"releases", "models", "instances", "etc", "bin", "state", "cache", "current"}
    | {discard.OF_THE_DISK}
)


def _is_rest(layout: Layout) -> bool:
    """Whether a kill came between the removal of the marker and that of its folder."""
    rest = list(layout.prefix.iterdir())
    return rest == [layout.state] and is_folder(layout.state) and not any(layout.state.iterdir())


def plan(layout: Layout, wish: Wish, medium: Manifest | None = None) -> Plan:
    """What `uninstall` would do. Writes nothing.

    `medium` is the manifest of the bundle at hand: it says what is ours of a release whose own is
    damaged. Raises FilesystemError.
    """
    try:
        manifests = dismantling.known(layout, medium)
        steps = tuple(dismantling.steps(layout, wish, manifests))
        return Plan(
            str(layout.prefix),
            steps,
            tuple(manifests),
            tuple(dismantling.kept(layout, wish)),
            tuple(dismantling.left(layout, wish, steps)),
            discard.size(step.path for step in steps if not step.if_empty),
        )
    except OSError as error:
        raise from_oserror(error, "looking at the installation") from error


def uninstall(layout: Layout, wish: Wish, medium: Manifest | None = None) -> Plan:
    """Stop every server and remove the installation; gives what was done. A re-run continues.

    Raises UsageError where somebody works on it, or programs run from it that do not end;
    ServerError where a server does not end, FilesystemError.
    """
    check(layout)
    with inuse.alone(layout):
        told = [line for one in layout.every() for line in retire(one)]
        _await_programs(layout)
        try:
            for release in dismantling.known(layout, medium):
                removal.mark(layout, release)
            planned = plan(layout, wish, medium)
            for step in planned.steps:
                _take(step)
        except OSError as error:
            raise from_oserror(error, "removing the installation") from error
    return _without_prefix(layout, replace(planned, told=tuple(told)))


def _without_prefix(layout: Layout, planned: Plan) -> Plan:
    """Remove the folder itself, which may be a mount, or lie in somebody else's folder."""
    try:
        discard.if_empty(layout.prefix)
    except OSError as error:
        return replace(planned, left=(f". ({error.strerror})",))
    return planned


def retire(layout: Layout) -> tuple[str, ...]:
    """End the servers of an instance, and remove what of it lies outside of the prefix.

    Gives what the host's service manager could not do by itself. Raises ServerError; UsageError
    where a unit was changed since it was installed, or a process is another account's;
    FilesystemError.
    """
    told = serviceunit.remove(layout).told
    if is_folder(layout.run):
        service.end(layout)
    short, folder = environment.temporary_folder(layout), layout.cache / "tmp"
    try:
        if short != folder and short.is_symlink() and short.readlink() == folder:
            short.unlink()
    except OSError as error:
        raise from_oserror(error, "removing the short name of the temporary folder") from error
    return told


def _await_programs(layout: Layout) -> None:
    """Give programs that attend a server the time to end.

    Raises UsageError where one does not.
    """
    deadline = time.monotonic() + _LINGERING
    while found := [p for p, _ in inuse.programs(layout) if p.pid != os.getpid()]:
        if time.monotonic() >= deadline:
            names = ", ".join(str(process.pid) for process in found)
            raise UsageError(
                f"programs of {layout.prefix} still run: process {names}",
                why="they would lose their files while they run",
                mend=f"see what they are (ps -fp {names.replace(' ', '')}), end them, and run the "
                "same command again",
            )
        time.sleep(0.1)


def _take(step: Step) -> None:
    if step.if_empty:
        discard.if_empty(step.path)
    elif step.entries is not None:
        discard.listed(step.path, step.entries)
    elif step.aside:
        discard.set_aside(step.path)
        discard.whole(discard.trash_of(step.path))
    else:
        discard.whole(step.path)
