"""The facts of a host that preflight judges: read once, kept as plain data."""

import contextlib
import os
import platform
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bundlectl import nvidia


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system, for the account that asks."""

    mount: str  # where it is mounted
    device: str
    kind: str  # "ext4", "tmpfs", …
    block: int  # bytes; a file takes whole blocks
    free: int  # bytes that this account may still use
    inodes: int  # files that this account may still make; -1 where there is no such limit
    noexec: bool = False
    read_only: bool = False


@dataclass(frozen=True)
class Host:
    """What preflight looks at."""

    prefix: str
    ground: str  # the nearest folder above the prefix, or the prefix, that exists
    writable: bool  # by this account
    file_system: FileSystem
    machine: str = "x86_64"
    glibc: str = ""  # empty where the C library is another one
    cpu_flags: frozenset[str] = frozenset()
    memory: int = 0  # bytes that processes can still take, cgroup limits considered
    proc: bool = True
    shm: bool = True  # /dev/shm is there and can be written
    loopback: bool = True
    port_problem: str = ""  # why host:port can't be listened on
    gpu_devices: tuple[str, ...] = ()
    gpus: tuple[nvidia.Gpu, ...] = ()  # where they were asked for and nvidia-smi names them
    driver: str = ""  # NVIDIA kernel module's release, "535.104.05"; empty where none is loaded
    umask: int = 0o022
    now: int = 0  # seconds since the epoch
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def probe(prefix: Path, host: str = "127.0.0.1", port: int = 0, *, gpus: bool = False) -> Host:
    """Look at this machine. `port` 0 leaves the port out; `gpus` asks nvidia-smi, which is slow.

    Raises OSError where the file system of the prefix can't be read.
    """
    ground = next(place for place in (prefix, *prefix.parents) if place.is_dir())
    return Host(
        prefix=str(prefix),
        ground=str(ground),
        writable=os.access(ground, os.W_OK | os.X_OK),
        file_system=file_system(ground),
        machine=platform.machine(),
        glibc=_glibc(),
        cpu_flags=cpu_flags(_text("/proc/cpuinfo")),
        memory=available_memory(),
        proc=os.access("/proc/self/exe", os.R_OK),
        shm=os.access("/dev/shm", os.W_OK | os.X_OK),  # noqa: S108 - looked at, not used
        loopback=_loopback(),
        port_problem=_port_problem(host, port) if port else "",
        gpu_devices=tuple(sorted(str(item) for item in Path("/dev").glob("nvidia*"))),
        gpus=nvidia.gpus(os.environ) if gpus else (),
        driver=driver_release(_text("/proc/driver/nvidia/version")),
        umask=_umask(),
        now=int(time.time()),
        environment=dict(os.environ),
    )


def file_system(folder: Path) -> FileSystem:
    """The file system that holds a folder.

    Raises OSError.
    """
    numbers = os.statvfs(folder)
    device, mount, kind = mounted(_text("/proc/self/mountinfo"), folder.stat().st_dev, folder)
    return FileSystem(
        mount=mount,
        device=device,
        kind=kind,
        block=numbers.f_frsize,
        free=numbers.f_bavail * numbers.f_frsize,
        # btrfs and others make inodes as they go and say 0.
        inodes=numbers.f_favail if numbers.f_files else -1,
        noexec=bool(numbers.f_flag & os.ST_NOEXEC),
        read_only=bool(numbers.f_flag & os.ST_RDONLY),
    )


def mounted(mountinfo: str, device: int, folder: Path) -> tuple[str, str, str]:
    """Device, mount point and kind of the file system of a folder, from proc(5)'s mountinfo."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    path = str(folder.resolve())
    best = ("unknown", "/", "unknown")
    length = -1
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 2:
            continue
        mount = _unescape(fields[4])
        below = path == mount or path.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one place is the one that is seen. Device numbers of
        # btrfs subvolumes differ from mountinfo's, hence only a preference.
        rank = len(mount) + (10_000 if fields[2] == wanted else 0)
        if below and rank >= length:
            best, length = (_unescape(tail[1]), mount, tail[0]), rank
    return best


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Flags of the first processor in /proc/cpuinfo (`Features` on ARM)."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def driver_release(version: str) -> str:
    """The release in /proc/driver/nvidia/version, whose first line ends after it in two spaces.

    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …", or, of the open
    modules, "… NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …".
    """
    found = re.search(r"^NVRM version:.*?\s(\d{3,4}(?:\.\d+)+)\s", version, re.MULTILINE)
    return found[1] if found else ""


def meminfo(text: str) -> int:
    """Bytes of `MemAvailable` in /proc/meminfo; 0 where it isn't there."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def available_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that processes started here can still take."""
    room = [meminfo(_text("/proc/meminfo"))]
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            room += _cgroup_room(cgroups, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            room += _cgroup_room(cgroups / "memory", path, *names)
    return min(room)


def _cgroup_room(root: Path, path: str, limit: str, used: str) -> list[int]:
    """What each cgroup above a process leaves; in a container the path may not be visible."""
    room = []
    folder = root / path.lstrip("/")
    for place in (folder, *folder.parents):
        most, now = _text(place / limit).strip(), _text(place / used).strip()
        if most.isdigit() and now.isdigit():
            bound = int(now) - _reclaimable(_text(place / "memory.stat"))
            room.append(max(0, int(most) - max(0, bound)))
        if place == root:
            break
    return room


def _reclaimable(stat: str) -> int:
    """Bytes of files that a cgroup keeps in memory: counted as used, and given up when needed.

    Whoever has just unpacked gigabytes has its whole limit full of them. With groups below counted
    too, names in version 1 of cgroups begin with `total_` (kernel, cgroup-v1/memory.rst).
    """
    numbers = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)
    start = "total_" if "total_inactive_file" in numbers else ""
    kinds = (numbers.get(f"{start}{kind}_file", "0") for kind in ("active", "inactive"))
    return sum(int(text) for text in kinds if text.strip().isdigit())


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def _glibc() -> str:
    try:
        words = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (ValueError, OSError):
        return ""
    return words[1] if len(words) == 2 and words[0] == "glibc" else ""


def _loopback() -> bool:
    # Connecting a datagram socket sends nothing; without the interface there is no route.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        try:
            probe_socket.connect(("127.0.0.1", 9))
        except OSError:
            return False
    return True


def _port_problem(host: str, port: int) -> str:
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        # As servers do: connections of an earlier server that still time out do no harm.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _umask() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _text("/proc/self/status").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
