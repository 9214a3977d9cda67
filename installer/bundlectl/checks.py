"""The table of preflight's checks, and what each of them compares.

Every function is pure: `Needs` (from the bundle's manifest) against `Host` (bundlectl.host).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from bundlectl.config import ServeConfig
from bundlectl.host import Host
from bundlectl.layout import LONGEST_PREFIX
from bundlectl.nvidia import Gpu, alike
from bundlectl.sizing import Sizing, on_cpu, on_gpus, products
from manifests import gpu
from manifests.console import size
from manifests.errors import BundleError, FilesystemError, TargetError
from manifests.fit import UTILIZATION, Shape
from manifests.fit.memory import free_share
from manifests.fit.tables import tables
from manifests.stack import Server

STOP, WARN, INFO, OK = "stop", "warn", "info", "ok"
#: The check that a start repeats, unless it was ignored when the release was installed.
MODEL_FIT = "model-fit"

#: limits.h: PATH_MAX counts the final NUL, NAME_MAX doesn't.
_LONGEST_PATH, _LONGEST_NAME = 4095, 255
#: Bytes of conda's placeholder in binary files; a longer prefix can't take its place.
_LONGEST_ENVIRONMENT = 255


@dataclass(frozen=True)
class Needs:
    """What a bundle asks of a host."""

    disk: int = 0  # bytes on the prefix's file system, whole blocks
    inodes: int = 0
    machine: str = "x86_64"
    glibc: str = ""  # lowest version, "2.28"
    cpu_flags: tuple[str, ...] = ()  # one of them is enough
    memory: int = 0  # bytes
    host: str = "127.0.0.1"
    port: int = 0  # 0 where no server is to be started
    gpus: tuple[str, ...] = (gpu.CPU,)
    served: tuple[str, ...] = ()  # capabilities that every needed library has code for; empty: any
    driver: str = ""  # lowest NVIDIA driver, "525.60.13"
    shape: Shape | None = None  # of the model that is served; None where its class is not known
    server: Server = field(default_factory=lambda: Server(""))
    settings: ServeConfig = field(default_factory=ServeConfig)
    environment: str = ""  # folder of the conda environment below the prefix
    longest_path: str = ""  # below the prefix
    created: int = 0  # seconds since the epoch


@dataclass(frozen=True)
class Verdict:
    """What a check's function returns."""

    passed: bool
    found: str
    needed: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Check:
    """One line of the table. `level` is how bad it is where the check does not pass."""

    name: str
    level: str
    function: Callable[[Needs, Host], Verdict]
    error: type[BundleError] = TargetError
    can_be_ignored: bool = True


def _disk(needs: Needs, host: Host) -> Verdict:
    place = host.file_system
    missing = needs.disk - place.free
    return Verdict(
        missing <= 0,
        f"{place.free} bytes free on {place.mount} ({place.device}, {place.kind})",
        f"{needs.disk} bytes",
        f"free {missing} bytes there, or choose another --prefix",
    )


def _inodes(needs: Needs, host: Host) -> Verdict:
    place = host.file_system
    unlimited = place.inodes < 0
    return Verdict(
        unlimited or needs.inodes <= place.inodes,
        f"{'any number of' if unlimited else place.inodes} files can be made on {place.mount}",
        f"{needs.inodes} files",
        "delete small files there, or choose another --prefix",
    )


def _writable(_needs: Needs, host: Host) -> Verdict:
    passed = host.writable and not host.file_system.read_only
    how = "can be written" if passed else "can't be written by this account"
    if host.file_system.read_only:
        how = "lies on a file system that is mounted read-only"
    return Verdict(
        passed, f"{host.ground} {how}", "", "choose another --prefix, or run as its owner"
    )


def _noexec(_needs: Needs, host: Host) -> Verdict:
    place = host.file_system
    how = "noexec" if place.noexec else "exec"
    return Verdict(
        not place.noexec,
        f"{place.mount} is mounted {how}",
        "exec",
        f"choose another --prefix, or run: mount -o remount,exec '{place.mount}'",
    )


def _path_length(needs: Needs, host: Host) -> Verdict:
    def length(below: str) -> int:
        return len(f"{host.prefix}/{below}".encode()) if below else 0

    name = max((len(part.encode()) for part in needs.longest_path.split("/")), default=0)
    over = max(
        length(needs.longest_path) - _LONGEST_PATH,
        length(needs.environment) - _LONGEST_ENVIRONMENT,
        len(host.prefix.encode()) - LONGEST_PREFIX,
    )
    return Verdict(
        over <= 0 and name <= _LONGEST_NAME,
        f"the prefix is {len(host.prefix.encode())} bytes long",
        f"{len(host.prefix.encode()) - max(over, 0)} bytes or fewer",
        "choose a shorter --prefix",
    )


def _proc(_needs: Needs, host: Host) -> Verdict:
    found = "/proc is mounted" if host.proc else "/proc is not mounted"
    return Verdict(host.proc, found, "", "run: mount -t proc proc /proc")


def _machine(needs: Needs, host: Host) -> Verdict:
    mend = f"create a bundle for {host.machine}, or use a {needs.machine} host"
    return Verdict(host.machine == needs.machine, host.machine, needs.machine, mend)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if re.fullmatch("[0-9]{1,9}", part))


def _glibc(needs: Needs, host: Host) -> Verdict:
    found = f"glibc {host.glibc}" if host.glibc else "a C library other than glibc"
    return Verdict(
        not needs.glibc or _version(host.glibc) >= _version(needs.glibc),
        found,
        f"glibc {needs.glibc} or newer" if needs.glibc else "",
        "use a newer distribution; glibc itself can't be upgraded alone",
    )


def _cpu(needs: Needs, host: Host) -> Verdict:
    present = [flag for flag in needs.cpu_flags if flag in host.cpu_flags]
    return Verdict(
        bool(present) or not needs.cpu_flags,
        f"the processor has {', '.join(present) or 'none of them'}" if needs.cpu_flags else "any",
        f"one of: {', '.join(needs.cpu_flags)}" if needs.cpu_flags else "",
        "use a newer processor; in a virtual machine, pass the host's processor model through",
    )


def _memory(needs: Needs, host: Host) -> Verdict:
    return Verdict(
        host.memory >= needs.memory,
        f"{host.memory} bytes of memory available",
        f"{needs.memory} bytes",
        "end other programs, raise the container's limit, or serve a smaller model",
    )


def _port(needs: Needs, host: Host) -> Verdict:
    found = f"{needs.host}:{needs.port}: {host.port_problem or 'free'}"
    mend = "stop what listens there, or set another port (--port, or port in etc/serve.toml)"
    return Verdict(not host.port_problem, found if needs.port else "not asked for", "", mend)


def _loopback(_needs: Needs, host: Host) -> Verdict:
    found = "up" if host.loopback else "127.0.0.1 can't be reached: the interface lo is down"
    return Verdict(host.loopback, found, "", "run: ip link set lo up")


def _shm(_needs: Needs, host: Host) -> Verdict:
    found = "can be written" if host.shm else "/dev/shm is missing or can't be written"  # noqa: S108 - text
    return Verdict(host.shm, found, "", "run: mount -t tmpfs -o mode=1777 shm /dev/shm")


def _gpu(needs: Needs, host: Host) -> Verdict:
    wanted = [kind for kind in needs.gpus if kind != gpu.CPU]
    missing = [
        node
        for node in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
        if node not in host.gpu_devices
    ]
    return Verdict(
        not wanted or not missing,
        f"missing: {', '.join(missing)}" if wanted and missing else "present or not needed",
        f"a GPU: {', '.join(wanted)}" if wanted else "",
        "install and load NVIDIA's driver (nvidia-modprobe -u makes nvidia-uvm)",
    )


def _driver(needs: Needs, host: Host) -> Verdict:
    found = f"NVIDIA driver {host.driver}" if host.driver else "no NVIDIA driver is loaded"
    return Verdict(
        not needs.driver or _version(host.driver) >= _version(needs.driver),
        found if needs.driver else "not needed",
        f"NVIDIA driver {needs.driver} or newer" if needs.driver else "",
        "install a newer driver, or create a bundle for this one (bundle stacks --driver)",
    )


def _gpu_code(needs: Needs, host: Host) -> Verdict:
    found = sorted(
        {f"sm_{one.capability.replace('.', '')}" for one in alike(host.gpus) if one.capability}
    )
    lacking = [name for name in found if name not in needs.served]
    return Verdict(
        not needs.served or not lacking,
        f"the GPUs are {', '.join(found)}" if found else "not known",
        f"one of: {', '.join(needs.served)}" if needs.served and found else "",
        "create a bundle for these GPUs (bundle stacks --gpu), or hide them: CUDA_VISIBLE_DEVICES",
    )


def _sized(needs: Needs, gpus: Sequence[Gpu]) -> Sizing:
    """What a server would be told. Raises TargetError where it can't fit."""
    return on_gpus(needs.shape, needs.server, needs.settings, gpus)


def _model_fit(needs: Needs, host: Host) -> Verdict:
    """By the GPUs' whole memory: what is free at the moment is another check's."""
    if needs.gpus == (gpu.CPU,):
        return _model_fit_on_cpu(needs, host)
    # A share of each GPU's memory is never a program's.
    idle = [replace(one, free=max(0, one.memory - tables().overhead.reserved)) for one in host.gpus]
    try:
        found = _sized(needs, idle)
    except TargetError as error:
        numbers = f"{products(alike(host.gpus))}: {'; '.join(error.findings or (error.what,))}"
        return Verdict(False, numbers, "room for the model and its cache", error.mend)
    if found.answer is None:
        return Verdict(True, "; ".join(found.reasons))
    return Verdict(True, f"{products(alike(host.gpus))}: {found.answer.text()}")


def _model_fit_on_cpu(needs: Needs, host: Host) -> Verdict:
    if not needs.memory:
        return Verdict(True, "not asked: nothing is started")
    if host.memory < needs.memory:
        return Verdict(True, "see memory")
    found = on_cpu(needs.shape, needs.server, needs.settings, host.memory, strict=False)
    return Verdict(True, "; ".join(found.reasons))


def _gpu_memory(needs: Needs, host: Host) -> Verdict:
    used = alike(host.gpus)
    memory = min((one.memory for one in used), default=0)
    if needs.gpus == (gpu.CPU,) or not memory:
        return Verdict(True, "not known" if needs.gpus != (gpu.CPU,) else "not needed")
    free = min(one.free for one in used)
    share = needs.settings.gpu_memory_utilization or UTILIZATION
    enough = free_share(memory, free) >= share
    then = "" if enough else f", running programs hold the rest; {_with_what_is_free(needs, used)}"
    return Verdict(
        enough,
        f"{size(free)} of {size(memory)} are free{then}",
        f"{size(memory * share // 100)}",
        "end what runs on the GPU (nvidia-smi names it) before the start",
    )


def _with_what_is_free(needs: Needs, used: Sequence[Gpu]) -> str:
    try:
        found = _sized(needs, used).answer
    except TargetError:
        return "the model does not fit into what is free"
    if found is None:
        return "whether the model fits into what is free is not known"
    return f"with what is free, max_model_len {found.max_model_len} fits"


def _clock(needs: Needs, host: Host) -> Verdict:
    def date(seconds: int) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")

    return Verdict(
        host.now >= needs.created,
        f"this host's clock says {date(host.now)}",
        f"not before the bundle was made, {date(needs.created)}",
        "set the clock: certificates and logs go by it",
    )


def _umask(_needs: Needs, host: Host) -> Verdict:
    found = f"{host.umask:04o}; files are made with modes of their own"
    return Verdict(host.umask == 0o022, found, "", "nothing to do")


def _set(host: Host, names: Sequence[str]) -> str:
    # Only names: values may hold passwords.
    present = [name for name in names if host.environment.get(name)]
    return f"{', '.join(present)} set; the server does not get it" if present else ""


def _proxies(_needs: Needs, host: Host) -> Verdict:
    schemes = ("http_proxy", "https_proxy", "all_proxy")
    found = _set(host, [name for low in schemes for name in (low, low.upper())])
    return Verdict(not found, found or "none", "", "nothing to do")


def _loader(_needs: Needs, host: Host) -> Verdict:
    found = _set(host, ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"))
    return Verdict(not found, found or "none", "", "remove it where it is not needed")


def _host_name(_needs: Needs, _host: Host) -> Verdict:
    return Verdict(True, "not looked up: the server is told to use 127.0.0.1")


CHECKS = (
    Check("proc", STOP, _proc),
    Check("machine", STOP, _machine, can_be_ignored=False),
    Check("glibc", STOP, _glibc),
    Check("cpu", STOP, _cpu),
    Check("gpu", STOP, _gpu),
    Check("driver", STOP, _driver),
    Check("gpu-code", STOP, _gpu_code),
    Check(MODEL_FIT, STOP, _model_fit),
    Check("gpu-memory", WARN, _gpu_memory),
    Check("memory", STOP, _memory),
    Check("disk", STOP, _disk, FilesystemError, can_be_ignored=False),
    Check("inodes", STOP, _inodes, FilesystemError, can_be_ignored=False),
    Check("writable", STOP, _writable, FilesystemError, can_be_ignored=False),
    Check("noexec", STOP, _noexec, can_be_ignored=False),
    Check("path-length", STOP, _path_length, can_be_ignored=False),
    Check("port", STOP, _port),
    Check("loopback", STOP, _loopback),
    Check("shm", STOP, _shm),
    Check("clock", WARN, _clock),
    Check("loader", WARN, _loader),
    Check("proxies", INFO, _proxies),
    Check("umask", INFO, _umask),
    Check("host-name", INFO, _host_name),
)
