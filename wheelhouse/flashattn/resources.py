"""What this machine can spare for a build: cores and memory, and how many units at once."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests.console import size
from manifests.errors import UsageError
from wheelhouse.flashattn.tables import tables

#: A limit that the kernel prints where there is none (cgroup v1: the largest page-aligned number).
_UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Machine:
    """Cores that this process may use, and bytes of memory that are free for it."""

    cores: int
    memory: int


def this_machine(root: Path = Path("/")) -> Machine:
    """The machine we run on; memory is the least of what the kernel and every cgroup leave."""
    return Machine(len(os.sched_getaffinity(0)), min(_free(root)))


def jobs(machine: Machine, wish: int = 0) -> int:
    """How many units to compile at once; `wish` (0: none) can lower the number, not raise it.

    nvcc's own `--threads` stays 1: it would multiply the memory of a unit, and as a part of the
    command line a changed number would make ninja compile everything anew.

    Raises UsageError where the memory does not do for one unit.
    """
    needed = tables().cost.memory
    fitting = machine.memory // needed
    if not fitting:
        raise UsageError(
            f"{size(machine.memory)} of memory are free, one unit of flash-attn needs "
            f"{size(needed)}",
            why="the compiler would be killed half-way",
            mend="end other programs, raise the memory limit of the container, "
            "or build on a machine with more",
        )
    return max(1, min(machine.cores, fitting, wish or machine.cores))


def wish(environment: Mapping[str, str]) -> int:
    """MAX_JOBS, which people set for such builds; 0 where it is not set.

    Raises UsageError where it is no number.
    """
    text = environment.get("MAX_JOBS", "").strip() or "0"
    if not text.isdigit():
        raise UsageError(f"MAX_JOBS is {text!r}, not a number", mend="set a number, or unset it")
    return int(text)


def seconds(units: int, archs: int, parallel: int) -> int:
    """About how long a build takes; cores differ, so this is an order of magnitude."""
    return units * archs * tables().cost.seconds // parallel


def _free(root: Path) -> Iterator[int]:
    yield _meminfo(root / "proc/meminfo")
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield from _version_two(root / "sys/fs/cgroup", path)
        elif "memory" in controllers.split(","):
            yield from _version_one(root / "sys/fs/cgroup/memory", path)


def _meminfo(path: Path) -> int:
    for line in _lines(path):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _UNLIMITED


def _version_two(base: Path, path: str) -> Iterator[int]:
    """docs.kernel.org/admin-guide/cgroup-v2.html: every ancestor's memory.max is a limit."""
    for folder in _upwards(base, path):
        yield _left(folder, "memory.max", "memory.current", "inactive_file")


def _version_one(base: Path, path: str) -> Iterator[int]:
    for folder in _upwards(base, path):
        limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        yield _left(folder, limit, used, "total_inactive_file")


def _upwards(base: Path, path: str) -> Iterator[Path]:
    folder = base / path.lstrip("/")
    # In a container the path is often that of the host, and only the base exists.
    yield from (place for place in (folder, *folder.parents) if place.is_relative_to(base))


def _left(folder: Path, limit: str, used: str, cache: str) -> int:
    """What a group may still take; page cache that nobody has looked at twice is given back."""
    most, now = _integer(folder / limit), _integer(folder / used)
    if most is None or most >= _UNLIMITED or now is None:
        return _UNLIMITED
    reclaimable = (
        int(line.split()[1])
        for line in _lines(folder / "memory.stat")
        if line.split()[:1] == [cache]
    )
    return max(0, most - now + next(reclaimable, 0))


def _integer(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii", "replace").splitlines()
    except OSError:
        return []
