"""An installation as a service of systemd: what it takes, installing it, taking it away again."""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bundlectl import config, cron, readiness, systemd, unitfiles, units
from bundlectl.layout import Layout
from bundlectl.startable import obstacles
from bundlectl.systemd import Manager
from bundlectl.units import Unit, Wish
from manifests import gpu, placement
from manifests.errors import BundleError, ServerError, TargetError

#: What `systemctl is-active` says of a unit whose processes may run (systemctl(1)).
_LIVES = ("active", "activating", "deactivating", "reloading")


@dataclass(frozen=True)
class Change:
    """What an install or a removal did, and what is left to the operator."""

    paths: tuple[str, ...]  # written or removed
    told: tuple[str, ...] = ()  # what systemctl could not do by itself
    following: tuple[str, ...] = ()  # commands


@dataclass(frozen=True)
class Shown:
    """What `service show` tells."""

    unit: str
    installed: bool
    files: dict[str, str]  # path → what became of it
    current: bool  # the units are what they would be if they were installed now
    active: str  # systemd's word; empty where it does not run
    wish: Wish
    obstacles: tuple[str, ...]
    following: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """What --json prints."""
        return asdict(self)

    def text(self) -> str:
        """What a person reads."""
        if not self.installed:
            rows = [f"{self.unit}: not installed"]
        else:
            boot = "starts at boot" if self.wish.boot else "does not start at boot"
            rows = [f"{self.unit}: {self.active or 'systemd does not run here'}; {boot}"]
        rows += [f"{state}: {path}" for path, state in self.files.items()]
        rows += [f"systemd can't execute it (203/EXEC): {one}" for one in self.obstacles]
        return "\n".join([*rows, *self.following])


def render(layout: Layout, wish: Wish) -> tuple[Unit, ...]:
    """The units of an installation as it is set up now.

    Raises UsageError, IntegrityError, FilesystemError for settings that can't be read.
    """
    settings = config.load(layout.config_file) if layout.config_file.exists() else None
    settings = settings or config.ServeConfig()
    return units.render(
        layout, settings, wish, gpu=_wants_gpu(layout), base=readiness.put_on_in_service(layout)
    )


def install(layout: Layout, wish: Wish, manager: Manager, *, force: bool = False) -> Change:
    """Install the units; nothing is started but the audit's timer. Idempotent.

    Raises TargetError where systemd does not run or could not execute what is installed,
    UsageError, FilesystemError.
    """
    _check_systemd(layout, wish, manager)
    found = obstacles(layout.command)
    if found:
        raise TargetError(
            "systemd could not execute what is installed (it would say: status=203/EXEC)",
            findings=[obstacle.what for obstacle in found],
            mend=f"{found[0].mend}; or do without: bundlectl start",
        )
    made = render(layout, wish)
    paths = unitfiles.install(layout, wish, made, manager.folder, force=force)
    told = []
    if paths:
        told += _said(manager, "daemon-reload")
    told += [
        line
        for unit in made
        if unit.name.endswith(".timer")
        for line in _said(manager, "start", unit.name)
    ]
    return Change(tuple(map(str, paths)), tuple(told), following(layout, wish, manager))


def remove(layout: Layout, *, force: bool = False) -> Change:
    """Stop and remove the units that `install` made; nothing where there are none.

    Raises UsageError where a file was changed since, unless `force`; ServerError where the server
    does not end, and then every file is still there; IntegrityError, FilesystemError.
    """
    record = unitfiles.load(layout)
    if not record.files:
        return Change(())
    manager = systemd.find(user=record.wish.user)
    changed = [made.path for made in record.files if unitfiles.state_of(made) == unitfiles.CHANGED]
    told: list[str] = []
    names = sorted({Path(made.path).name for made in record.files})
    if manager.running and (force or not changed):
        told += _stop(layout, manager, names)
    paths = unitfiles.remove(layout, force=force)
    told += _said(manager, "daemon-reload") if manager.running else []
    left = [f"{path}.d" for path in paths if Path(f"{path}.d").is_dir()]
    told += [f"left, it holds an operator's own lines: {folder}" for folder in left]
    return Change(tuple(map(str, paths)), tuple(told))


def show(layout: Layout) -> Shown:
    """What is installed, whether it is up to date, and what keeps it from starting.

    Raises IntegrityError, FilesystemError.
    """
    record = unitfiles.load(layout)
    name = units.server_name(layout)
    manager = systemd.find(user=record.wish.user)
    files = {made.path: unitfiles.state_of(made) for made in record.files}
    active, steps, current = "", [], True
    if record.files:
        active = manager.says("is-active", name)[1].strip() if manager.running else ""
        current = unitfiles.is_current(record, render(layout, record.wish), manager.folder)
        steps += [] if current else ["settings changed since; run: bundlectl service install"]
        steps += following(layout, record.wish, manager)
    found = [f"{one.what}; mend: {one.mend}" for one in obstacles(layout.command)]
    return Shown(name, bool(files), files, current, active, record.wish, tuple(found), tuple(steps))


def following(layout: Layout, wish: Wish, manager: Manager) -> tuple[str, ...]:
    """What the operator does next, a line each."""
    name = units.server_name(layout)
    rows = [f"start it:  {manager.command} start {name}   (first: bundlectl stop, if one runs)"]
    rows.append(f"after five failed starts, first:  {manager.command} reset-failed {name}")
    rows += [f"its log:   journalctl {'--user ' if wish.user else ''}-u {name} -e"]
    if wish.user and wish.boot:
        rows.append("at boot, before a login, only after:  loginctl enable-linger")
    if not wish.user and not wish.account:
        rows.append("it runs as root without root's privileges; --account NAME is better still")
    return tuple(rows)


def _stop(layout: Layout, manager: Manager, names: list[str]) -> list[str]:
    """Stop units and keep them from starting; gives what systemctl could not do.

    Without its files systemd would not know how to go on with a stop, or what a restart is. Raises
    ServerError where the server has not ended.
    """
    settings = _settings(layout)
    grace = settings.drain_timeout + settings.stop_timeout + units.MARGIN
    status, answer = manager.says("disable", "--now", *names, patience=grace)
    name = units.server_name(layout)
    state = manager.says("is-active", name)[1].strip()
    if status == systemd.TIMED_OUT or state in _LIVES:
        raise ServerError(
            f"{name} has not ended ({state or 'systemd does not answer'})",
            why=answer.strip(),
            mend=f"look at it: {manager.command} status {name}; once it has ended, run the same "
            "command again",
        )
    return _complaint(manager, status, answer, "disable", "--now", *names)


def _said(manager: Manager, *words: str) -> list[str]:
    return _complaint(manager, *manager.says(*words), *words)


def _complaint(manager: Manager, status: int, answer: str, *words: str) -> list[str]:
    if not status:
        return []
    first = answer.strip().splitlines()[0] if answer.strip() else f"status {status}"
    return [f"{manager.command} {shlex.join(words)}: {first}; run it yourself"]


def _check_systemd(layout: Layout, wish: Wish, manager: Manager) -> None:
    if manager.running:
        return
    lines = cron.lines(layout, wish.audit)
    what = "this account has no service manager" if wish.user else "systemd does not run here"
    raise TargetError(
        f"{what}, so no unit can be installed",
        findings=[f"crontab: {line}" for line in lines],
        mend="start it with: bundlectl start; for every boot, put the lines above into crontab -e"
        + ("; or log in as that account, rather than by su or sudo" if wish.user else ""),
    )


def _settings(layout: Layout) -> config.ServeConfig:
    """The settings; those of a new installation where they can't be read: it is to go anyway."""
    try:
        return config.load(layout.config_file)
    except BundleError:
        return config.ServeConfig()


def _wants_gpu(layout: Layout) -> bool:
    release = layout.current_release()
    try:
        manifest, _ = placement.load_manifest(layout.prefix, release)
    except BundleError:
        return True  # nothing is in service yet, or it is damaged: a unit more does no harm
    return manifest.target.gpus != (gpu.CPU,)
