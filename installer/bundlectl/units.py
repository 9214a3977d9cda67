"""The text of the systemd units of an installation. Pure: nothing here looks at the host.

Keys are those of systemd.unit(5), systemd.service(5), systemd.timer(5), systemd.exec(5).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bundlectl import hardening, inquiry
from bundlectl.config import ServeConfig
from bundlectl.hardening import AUDIT, SERVER, USER
from bundlectl.layout import Layout
from manifests.exitcodes import ExitCode
from manifests.overlay import Base

STEM = "vllm-bundle"
#: Seconds beyond the keeper's own deadlines, which should be the ones that end things.
MARGIN = 60
#: Folders in which ProtectHome=yes would hide the installation (systemd.exec(5)).
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
#: Below it a port can be listened on with a capability alone (ip(7)).
_FIRST_FREE_PORT = 1024


@dataclass(frozen=True)
class Wish:
    """What the operator wants; kept in the record, so that `show` can render it again."""

    user: bool = False  # for one account's own service manager
    boot: bool = True
    account: str = ""  # empty: root's, or the user's own
    audit: str = ""  # an OnCalendar of systemd.time(7); empty: none


@dataclass(frozen=True)
class Unit:
    """A unit's file; `wanted_by` names the target whose start starts it, if any."""

    name: str
    text: str
    wanted_by: str = ""


def server_name(layout: Layout) -> str:
    """The name of the server's unit."""
    return _name(layout, "", "service")


def render(
    layout: Layout, settings: ServeConfig, wish: Wish, *, gpu: bool, base: Base | None = None
) -> tuple[Unit, ...]:
    """All units that are wanted, the server's first; `base` is what an overlay was put on."""
    units = [_server(layout, settings, wish, gpu=gpu, base=base)]
    if gpu:
        units.append(_devices(layout))
    if wish.audit:
        units += _audit(layout, wish)
    return tuple(units)


def _server(
    layout: Layout, settings: ServeConfig, wish: Wish, *, gpu: bool, base: Base | None
) -> Unit:
    devices = [_name(layout, "gpu", "service")] if gpu else []
    target = "default.target" if wish.user else "multi-user.target"
    after = [*devices, *([] if wish.user else ["network.target", "nvidia-persistenced.service"])]
    grace = settings.drain_timeout + settings.stop_timeout
    lines = [
        "[Unit]",
        f"Description=vLLM of {_plain(layout.prefix)} ({layout.called})",
        *([f"After={' '.join(after)}"] if after else []),
        *(f"Wants={name}" for name in devices),
        "# A start takes minutes: five failed ones within two hours are enough, whatever failed.",
        "StartLimitIntervalSec=7200",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "# Ready is told once the server has answered a question.",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={_call(layout, 'start --foreground')}",
        f"WorkingDirectory={_plain(layout.prefix)}",
        *_account(wish),
        "# The first start of a release asks its parser about the arguments, too.",
        f"TimeoutStartSec={inquiry.PATIENCE + settings.start_timeout + MARGIN}",
        "# Open requests are answered first, then the engine ends by itself.",
        f"TimeoutStopSec={grace + MARGIN}",
        "KillMode=mixed",
        "Restart=on-failure",
        "RestartSec=30",
        "# Another start does not mend a host that does not fit. All else it may: 2 is wrong",
        "# settings, but also another bundlectl at work at boot, and 1 is how Python itself fails.",
        f"RestartPreventExitStatus={int(ExitCode.TARGET)}",
        f"SuccessExitStatus={int(ExitCode.INTERRUPTED)}",
        "LimitNOFILE=65536",
        *([] if wish.user else ["# Pinned memory of GPUs.", "LimitMEMLOCK=infinity"]),
        "",
        *_hardened(layout, settings, USER if wish.user else SERVER, gpu=gpu, base=base),
        "",
        "[Install]",
        f"WantedBy={target}",
    ]
    return Unit(server_name(layout), _text(lines), target if wish.boot else "")


def _devices(layout: Layout) -> Unit:
    """The unit that does what CUDA's setuid helper can't do inside of the sandbox."""
    lines = [
        "[Unit]",
        f"Description=GPU device nodes for vLLM of {_plain(layout.prefix)}",
        f"Before={server_name(layout)}",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        "# Loads the driver's modules and makes /dev/nvidia*, which a fresh boot has not.",
        'ExecStart=-/bin/sh -c "nvidia-smi -L; nvidia-modprobe -u -c=0"',
    ]
    return Unit(_name(layout, "gpu", "service"), _text(lines))


def _audit(layout: Layout, wish: Wish) -> list[Unit]:
    service, timer = (_name(layout, "audit", kind) for kind in ("service", "timer"))
    lines = [
        "[Unit]",
        f"Description=Audit of every installed byte below {_plain(layout.prefix)}",
        "",
        "[Service]",
        "Type=oneshot",
        "# The answer goes to the journal and, for `bundlectl status`, below state/.",
        f"ExecStart={_call(layout, 'audit --json --record')}",
        *_account(wish),
        "Nice=19",
        "CPUSchedulingPolicy=idle",
        "IOSchedulingClass=idle",
        "",
        *_hardened(layout, ServeConfig(), USER if wish.user else AUDIT, gpu=False),
    ]
    when = [
        "[Unit]",
        f"Description=Audit of {_plain(layout.prefix)}, {wish.audit}",
        "",
        "[Timer]",
        f"OnCalendar={wish.audit}",
        "# Hosts that share a disk or a rack do not all read at the same minute.",
        "RandomizedDelaySec=1h",
        "# A host that was off makes up for it.",
        "Persistent=true",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return [Unit(service, _text(lines)), Unit(timer, _text(when), "timers.target")]


def _hardened(
    layout: Layout, settings: ServeConfig, unit: str, *, gpu: bool, base: Base | None = None
) -> Iterable[str]:
    needed = [layout.prefix]
    if base is not None:
        needed += (Path(base.python).parent, Path(base.executable), *map(Path, base.sites))
    # By its name, which is what files name, and where links lead from there.
    named = [place for one in needed for place in (one.absolute(), one.resolve())]
    homely = any(place.is_relative_to(home) for place in named for home in _HOMES)
    low = unit == SERVER and settings.port < _FIRST_FREE_PORT
    capabilities = "CAP_NET_BIND_SERVICE" if low else ""
    places = {
        "home": "read-only" if homely else "yes",
        "capabilities": capabilities,
        **{
            name: _quoted(str(folder))
            for name, folder in (
                ("prefix", layout.prefix),
                ("releases", layout.releases),
                ("models", layout.models),
                ("bin", layout.bin),
                ("state", layout.state),
            )
        },
    }
    for row in hardening.rows(unit, gpu=gpu, local=not settings.allow_remote):
        yield f"# {row.why}"
        yield f"{row.key}={row.value.format_map(places)}"
    if low:
        yield f"# Port {settings.port} is a privileged one."
        yield f"AmbientCapabilities={capabilities}"


def _account(wish: Wish) -> list[str]:
    return [f"User={wish.account}"] if wish.account and not wish.user else []


def _call(layout: Layout, words: str) -> str:
    instance = f" --instance {layout.instance}" if layout.instance else ""
    return f"{_quoted(str(layout.command))}{instance} {words}"


def _name(layout: Layout, part: str, kind: str) -> str:
    stem = f"{STEM}-{part}" if part else STEM
    return f"{stem}@{layout.instance}.{kind}" if layout.instance else f"{stem}.{kind}"


def _plain(path: Path) -> str:
    """A path as a whole value: only specifiers (%) mean something in one."""
    return str(path).replace("%", "%%")


def _quoted(text: str) -> str:
    """A word of a list, quoted as systemd.syntax(7) has it."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{inner}"'


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
