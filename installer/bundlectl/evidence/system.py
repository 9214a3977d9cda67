"""What memory, limits and the account say for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl.host.reading import UNLIMITED
from bundlectl.scene import Scene
from manifests.console import size
from manifests.doctor import Answer

#: With less, what failed for want of it failed for that; memory in bytes.
_LITTLE_MEMORY, _FEW_FILES, _FEW_THREADS = 1 << 30, 4096, 1024
_UNKNOWN = Answer(None)


def _memory_short(scene: Scene) -> Answer:
    left = scene.host.machine.memory
    return Answer(left < _LITTLE_MEMORY, f"{size(left)} of memory can still be taken")


def _memory_limited(scene: Scene) -> Answer:
    limit = scene.host.machine.memory_limit
    found = "no limit" if limit == UNLIMITED else f"limited to {size(limit)} by a control group"
    return Answer(limit != UNLIMITED, found)


def _oom_killed(scene: Scene) -> Answer:
    killed = scene.host.machine.killed
    found = ", ".join(killed) or "nothing that its log tells"
    return Answer(bool(killed), f"the kernel has ended {found}")


def _home_missing(scene: Scene) -> Answer:
    account = scene.host.account
    bad = account.home in ("", "/") or not account.home_writable
    return Answer(bad, f"HOME is {account.home or 'not set'}" + ", which can't be written" * bad)


def _account_without_name(scene: Scene) -> Answer:
    account = scene.host.account
    return Answer(not account.name, f"uid {account.uid} is {account.name or 'in no database'}")


def _open_files_low(scene: Scene) -> Answer:
    limit = scene.host.account.open_files
    return Answer(_below(limit, _FEW_FILES), f"open files: {_said(limit)}")


def _processes_limited(scene: Scene) -> Answer:
    room = scene.host.account.processes
    return Answer(_below(room, _FEW_THREADS), f"threads that may still be started: {_said(room)}")


def _below(limit: int, least: int) -> bool:
    return limit != UNLIMITED and limit < least


def _said(limit: int) -> str:
    return "no limit" if limit == UNLIMITED else str(limit)


def _locale_not_utf8(scene: Scene) -> Answer:
    locale = scene.host.account.locale
    good = locale.lower().replace("-", "").endswith("utf8")
    return Answer(not good, f"the locale is {locale or 'not set'}")


def _selinux_enforcing(scene: Scene) -> Answer:
    on = scene.host.machine.selinux
    return Answer(on, f"SELinux is {'' if on else 'not '}enforcing")


def _clock_wrong(scene: Scene) -> Answer:
    if scene.needs is None or not scene.needs.created:
        return _UNKNOWN
    early = scene.host.machine.now < scene.needs.created
    how = "before" if early else "after"
    return Answer(early, f"the clock stands {how} the moment when the bundle was made")


def _proc_missing(scene: Scene) -> Answer:
    there = scene.host.machine.proc
    return Answer(not there, f"/proc is {'' if there else 'not '}mounted")


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "memory-short": _memory_short,
    "memory-limited": _memory_limited,
    "oom-killed": _oom_killed,
    "home-missing": _home_missing,
    "account-without-name": _account_without_name,
    "open-files-low": _open_files_low,
    "processes-limited": _processes_limited,
    "locale-not-utf8": _locale_not_utf8,
    "selinux-enforcing": _selinux_enforcing,
    "clock-wrong": _clock_wrong,
    "proc-missing": _proc_missing,
}
