"""What a support file says of the machine. Every fact that can't be had is left out or says why."""

import os
import platform
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bundlectl import host, nvidia
from bundlectl.host import kernellog
from bundlectl.host.reading import text
from manifests.console import size

#: Topics of `nvidia-smi --help` for -d.
_ASKED = "MEMORY,UTILIZATION,ECC,TEMPERATURE,POWER,CLOCK,COMPUTE,PIDS,PERFORMANCE,PAGE_RETIREMENT"
#: Variables that decide how programs run here, and hold no secret. Of proxies only that they are.
_TELLING = (
    *("CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "HOME", "LANG", "LC_ALL"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"),
    *("PATH", "PYTHONHOME", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "TZ", "XDG_DATA_HOME"),
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_MEMORY = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree"),
    *("Shmem", "HugePages_Total", "Hugepagesize", "CommitLimit", "Committed_AS"),
)
#: Files whose presence says what this machine is.
_HINTS = {
    "/.dockerenv": "Docker",
    "/run/.containerenv": "Podman",
    "/run/systemd/system": "systemd runs",
    "/usr/lib/wsl/lib": "WSL",
    "/run/ostree-booted": "an immutable system (ostree)",
    "/proc/sys/fs/binfmt_misc/WSLInterop": "WSL",
    "/var/run/secrets/kubernetes.io": "Kubernetes",
    "/sys/fs/selinux/enforce": "SELinux",
    "/sys/module/apparmor/parameters/enabled": "AppArmor",
}
#: Pseudo file systems, of which there are dozens.
_DULL = (
    *("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "debugfs", "tracefs", "securityfs"),
    *("pstore", "bpf", "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "nsfs"),
    *("rpc_pipefs", "efivarfs", "ramfs"),
)
_TELLING_OF_KERNEL = (
    "NVRM",
    "Xid",
    "Out of memory",
    "oom-kill",
    "oom_reaper",
    "nvidia",
    "I/O error",
)


def machine() -> Iterator[str]:
    """Kernel, distribution, C library, processor, memory, time, account."""
    yield f"kernel: {platform.system()} {platform.release()} {platform.machine()}"
    yield f"host name: {platform.node()}"
    release = _fields(text("/etc/os-release"), "=")
    yield f"distribution: {release.get('PRETTY_NAME', 'unknown').strip(chr(34))}"
    yield f"C library: {' '.join(platform.libc_ver()).strip() or 'unknown, not glibc'}"
    yield f"processors: {len(os.sched_getaffinity(0))} of {os.cpu_count()} usable, {_processor()}"
    yield f"load: {text('/proc/loadavg').strip()}"
    yield f"up for: {text('/proc/uptime').split(' ')[0]} s"
    yield f"time: {time.strftime('%Y-%m-%d %H:%M:%S %z')}"
    yield f"account: uid {os.geteuid()}, gid {os.getegid()}, groups {sorted(os.getgroups())}"
    memory = _fields(text("/proc/meminfo"), ":")
    yield from (f"{name}: {memory[name]}" for name in _MEMORY if name in memory)
    yield f"processes started here can take: {size(host.available_memory())}"


def limits() -> Iterator[str]:
    """What this account, this cgroup and this container may do, and what this machine is."""
    yield from text("/proc/self/limits").splitlines()
    yield f"soft limit of open files: {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}"
    yield "cgroup:"
    yield from (f"  {line}" for line in text("/proc/self/cgroup").splitlines())
    for name in ("memory.max", "memory.current", "memory.swap.max", "cpu.max", "pids.max"):
        found = text(f"/sys/fs/cgroup/{name}").strip()
        if found:
            yield f"  {name}: {found}"
    hints = sorted({hint for path, hint in _HINTS.items() if Path(path).exists()})
    yield f"signs of: {', '.join(hints) or 'nothing special'}"
    for path in ("/sys/fs/selinux/enforce", "/proc/sys/vm/overcommit_memory", "/proc/1/comm"):
        yield f"{path}: {text(path).strip() or 'not there'}"


def disks(folders: Sequence[Path]) -> Iterator[str]:
    """The file systems below some folders, and all mounts, without their sources."""
    for folder in folders:
        ground = next(place for place in (folder, *folder.parents) if place.is_dir())
        found = host.file_system(ground)
        marks = " noexec" * found.noexec + " read-only" * found.read_only
        inodes = "no limit" if found.inodes < 0 else str(found.inodes)
        yield (
            f"{folder}: {found.kind} at {found.mount}, {size(found.free)} free, "
            f"{inodes} inodes free{marks}"
        )
    yield "mounts:"
    for line in text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split(" ")[0]
        if len(fields) > 5 and kind not in _DULL:
            yield f"  {fields[4]} {kind} {fields[5]}"


def environment() -> Iterator[str]:
    """The few variables that are shown; of the others only how many there are."""
    yield from (f"{name}={os.environ[name]}" for name in _TELLING if name in os.environ)
    for name in _PROXIES:
        for variable in (name, name.upper()):
            if os.environ.get(variable):
                yield f"{variable} is set"
    yield f"{sum(name not in _TELLING for name in os.environ)} other variables are not shown"


def gpus() -> Iterator[str]:
    """The driver, and what nvidia-smi says."""
    version = text("/proc/driver/nvidia/version").strip()
    yield from version.splitlines() or ("no NVIDIA kernel module is loaded",)
    yield f"devices: {', '.join(sorted(map(str, Path('/dev').glob('nvidia*')))) or 'none'}"
    # One that hangs does so whatever it is asked.
    for words in ((), ("-L",), ("topo", "-m"), ("-q", "-d", _ASKED)):
        yield f"$ nvidia-smi {' '.join(words)}".rstrip()
        answer = nvidia.ask(os.environ, *words)
        if answer.problem:
            yield f"[no answer: {answer.problem}]"
            return
        yield from answer.text.splitlines()


def kernel_log() -> Iterator[str]:
    """What the kernel's log says of GPUs, memory and disks; other lines of it are not shown."""
    log = kernellog.lines()
    if not log:
        yield "it can't be read by this account"
    yield from (line for line in log if any(word in line for word in _TELLING_OF_KERNEL))


def _processor() -> str:
    return _fields(text("/proc/cpuinfo"), ":").get("model name", "model unknown")


def _fields(lines: str, sign: str) -> dict[str, str]:
    pairs = (line.partition(sign) for line in lines.splitlines() if sign in line)
    found: dict[str, str] = {}
    for name, _, value in pairs:
        found.setdefault(name.strip(), value.strip())
    return found
