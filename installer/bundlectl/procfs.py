"""What /proc says about processes (proc(5)); a process that is gone is None, never an error."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_DEAD = "ZX"


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat, as far as it is used."""

    pid: int
    state: str
    session: int
    started: int  # clock ticks after boot; with the pid, this names a process for ever

    @property
    def dead(self) -> bool:
        """Whether only its exit status is left."""
        return self.state in _DEAD


def parse_stat(text: str) -> Process:
    """Read a stat line.

    The command's name stands in parentheses and may itself hold spaces and parentheses.
    """
    pid = int(text.split(" ", 1)[0])
    values = text.rpartition(")")[2].split()
    return Process(pid, state=values[0], session=int(values[3]), started=int(values[19]))


def read(pid: int) -> Process | None:
    """A process, or None."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text("utf-8", "replace"))
    except (OSError, IndexError, ValueError):
        return None


def everyone() -> Iterator[Process]:
    """All living processes that can be seen."""
    for name in (entry.name for entry in PROC.iterdir()):
        if name.isdigit() and (process := read(int(name))) and not process.dead:
            yield process


def environment(pid: int) -> tuple[str, ...]:
    """NAME=VALUE of a process at its start; empty where it can't be read."""
    try:
        data = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(item) for item in data.split(b"\0") if item)


def memory(pid: int) -> int:
    """Bytes of memory of a process, shared pages by share; 0 where it can't be read."""
    try:
        text = (PROC / str(pid) / "smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    found = (line.split() for line in text.splitlines() if line.startswith("Pss:"))
    return sum(int(words[1]) * 1024 for words in found)


def boot_id() -> str:
    """Different after each boot; empty where the kernel does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def uptime(process: Process) -> float:
    """Seconds since a process began."""
    since_boot = float((PROC / "uptime").read_text("ascii").split()[0])
    return max(0.0, since_boot - process.started / os.sysconf("SC_CLK_TCK"))
