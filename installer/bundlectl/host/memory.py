"""How much memory and how many processes and processors a program started here can have."""

import os
from collections.abc import Iterator
from pathlib import Path

from bundlectl.host.reading import UNLIMITED, text

CGROUPS = Path("/sys/fs/cgroup")


def meminfo(lines: str) -> dict[str, int]:
    """/proc/meminfo: bytes, or a bare number where the kernel gives no unit."""
    found = {}
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdecimal():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def available_memory(cgroups: Path = CGROUPS) -> int:
    """Bytes that processes started here can still take."""
    available = meminfo(text("/proc/meminfo")).get("MemAvailable", 0)
    return min([available, *_rooms(cgroups)])


def memory_limit(cgroups: Path = CGROUPS) -> int:
    """Bytes that a container or a service manager leaves these processes in all."""
    limits = [
        int(most)
        for folder, version in _groups(cgroups, "memory")
        if (most := text(folder / _LIMIT[version]).strip()).isdecimal()
    ]
    # Version 1 of cgroups says "no limit" with the greatest number of pages.
    return min((limit for limit in limits if limit < 1 << 62), default=UNLIMITED)


def processors(cgroups: Path = CGROUPS) -> int:
    """Processors that these processes may use at a time, by affinity and by quota (cgroup v2)."""
    counts = [len(os.sched_getaffinity(0))]
    for folder, _ in _groups(cgroups, "cpu"):
        quota, _, period = text(folder / "cpu.max").strip().partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            counts.append(max(1, int(quota) // int(period)))
    return min(counts)


def process_room(cgroups: Path = CGROUPS) -> int:
    """Threads and processes that the cgroups still allow."""
    room = []
    for folder, _ in _groups(cgroups, "pids"):
        most, now = text(folder / "pids.max").strip(), text(folder / "pids.current").strip()
        if most.isdecimal() and now.isdecimal():
            room.append(max(0, int(most) - int(now)))
    return min(room, default=UNLIMITED)


_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}


def _groups(cgroups: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """The folders of the cgroups that these processes are in, from the inside out, and a version.

    In a container the path may not be visible; the root of what is seen then speaks for it.
    """
    for line in text("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            root, version = cgroups, 2
        elif controller in controllers.split(","):
            root, version = cgroups / controller, 1
        else:
            continue
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            yield place, version
            if place == root:
                break


def _rooms(cgroups: Path) -> Iterator[int]:
    for folder, version in _groups(cgroups, "memory"):
        most, now = (text(folder / name[version]).strip() for name in (_LIMIT, _USED))
        if most.isdecimal() and now.isdecimal():
            bound = int(now) - _reclaimable(text(folder / "memory.stat"))
            yield max(0, int(most) - max(0, bound))


def _reclaimable(stat: str) -> int:
    """Bytes of files that a cgroup keeps in memory: counted as used, and given up when needed.

    Whoever has just unpacked gigabytes has its whole limit full of them. With groups below counted
    too, names in version 1 of cgroups begin with `total_` (kernel, cgroup-v1/memory.rst).
    """
    numbers = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)
    start = "total_" if "total_inactive_file" in numbers else ""
    kinds = (numbers.get(f"{start}{kind}_file", "0") for kind in ("active", "inactive"))
    return sum(int(count) for count in kinds if count.strip().isdigit())
