"""The machine, its kernel, and what surrounds this process: container, WSL, security modules."""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bundlectl import procfs
from bundlectl.environment import INSTANCE
from bundlectl.host import kernellog
from bundlectl.host.memory import available_memory, meminfo, memory_limit, processors
from bundlectl.host.reading import UNLIMITED, names, number, text

#: Programs that compile C on the path that a server gets.
_COMPILERS = ("cc", "gcc", "clang")
_SYSTEM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: Files that container runtimes leave (podman(1), Docker).
_MARKS = {"/run/.containerenv": "podman", "/.dockerenv": "docker"}


@dataclass(frozen=True)
class Machine:
    """What preflight asks of the machine; sizes in bytes."""

    architecture: str = "x86_64"
    kernel: str = ""  # "5.15.0-105-generic"
    glibc: str = ""  # empty where the C library is another one
    cpu_flags: frozenset[str] = frozenset()
    processors: int = 0  # that these processes may use; 0: not known
    load: int = 0  # processes that run or wait for a processor, mean of a minute
    memory: int = 0  # that processes can still take, cgroup limits considered
    memory_limit: int = UNLIMITED  # of a cgroup
    memory_total: int = 0
    swap_total: int = 0
    swap_free: int = 0
    commit_room: int = UNLIMITED  # address space that may still be promised (overcommit_memory = 2)
    huge_pages: int = 0  # set aside for huge pages, and free
    maps: int = UNLIMITED  # vm.max_map_count
    numa_nodes: int = 1
    proc: bool = True
    sys: bool = True
    now: int = 0  # seconds since the epoch
    wsl: bool = False
    container: str = ""  # "docker", "podman", …; empty outside of one
    seccomp: bool = False  # system calls are filtered
    selinux: bool = False  # enforcing
    apparmor: str = ""  # the profile that is enforced on this process
    compiler: str = ""  # a C compiler on the path that the server gets
    core_pattern: str = ""
    servers: tuple[str, ...] = ()  # vLLM servers of others, "pid 12"
    killed: tuple[str, ...] = ()  # processes that the kernel has ended for want of memory


def read_machine(prefix: str, log: Sequence[str] = ()) -> Machine:
    """Look at this machine; `log` is the kernel's, and servers below the prefix are ours."""
    sizes = meminfo(text("/proc/meminfo"))
    release = os.uname().release
    return Machine(
        architecture=platform.machine(),
        kernel=release,
        glibc=_glibc(),
        cpu_flags=cpu_flags(text("/proc/cpuinfo")),
        processors=processors(),
        load=_load(),
        memory=available_memory(),
        memory_limit=memory_limit(),
        memory_total=sizes.get("MemTotal", 0),
        swap_total=sizes.get("SwapTotal", 0),
        swap_free=sizes.get("SwapFree", 0),
        commit_room=commit_room(sizes, number("/proc/sys/vm/overcommit_memory")),
        huge_pages=sizes.get("HugePages_Free", 0) * sizes.get("Hugepagesize", 0),
        maps=number("/proc/sys/vm/max_map_count", UNLIMITED),
        numa_nodes=sum(name[4:].isdecimal() for name in names("/sys/devices/system/node")) or 1,
        proc=os.access("/proc/self/exe", os.R_OK),
        sys=bool(names("/sys/devices")),
        now=int(time.time()),
        wsl="microsoft" in release.lower(),
        container=container(),
        seccomp="\nSeccomp:\t2" in text("/proc/self/status"),
        selinux=text("/sys/fs/selinux/enforce").strip() == "1",
        apparmor=apparmor(text("/proc/self/attr/current")),
        compiler=_compiler(),
        core_pattern=text("/proc/sys/kernel/core_pattern").strip(),
        servers=tuple(other_servers(procfs.PROC, prefix)),
        killed=kernellog.killed(log),
    )


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Flags of the first processor in /proc/cpuinfo (`Features` on ARM)."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def commit_room(sizes: dict[str, int], mode: int) -> int:
    """Bytes that may still be promised; only mode 2 limits them (kernel, overcommit-accounting)."""
    if mode != 2 or "CommitLimit" not in sizes:
        return UNLIMITED
    return max(0, sizes["CommitLimit"] - sizes.get("Committed_AS", 0))


def apparmor(current: str) -> str:
    """The profile in /proc/self/attr/current, where it is enforced: "docker-default (enforce)"."""
    name, _, mode = current.strip().rstrip("\0").rpartition(" ")
    return name if mode == "(enforce)" else ""


def container(root: Path = Path("/")) -> str:
    """The kind of the container that this process runs in; empty outside of one.

    systemd's container interface: process 1 has `container=KIND` in its environment.
    """
    for mark, kind in _MARKS.items():
        if (root / mark.lstrip("/")).exists():
            return kind
    first = text(root / "proc/1/environ").split("\0")
    return next((item.partition("=")[2] for item in first if item.startswith("container=")), "")


def other_servers(proc: Path, prefix: str) -> Iterator[str]:
    """The vLLM servers that run here and were not started from the prefix."""
    for name in names(proc):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        words = text(proc / name / "cmdline", 4096).split("\0")
        vllm = any(word.startswith(("vllm.entrypoints", "VLLM::EngineCore")) for word in words)
        if vllm and f"{INSTANCE}={prefix}/" not in text(proc / name / "environ"):
            yield f"pid {name}"


def _load() -> int:
    try:
        return int(os.getloadavg()[0])
    except OSError:
        return 0


def _glibc() -> str:
    try:
        words = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (ValueError, OSError):
        return ""
    return words[1] if len(words) == 2 and words[0] == "glibc" else ""


def _compiler() -> str:
    places = (f"{folder}/{name}" for name in _COMPILERS for folder in _SYSTEM_PATH)
    return next((place for place in places if os.access(place, os.X_OK)), "")
