"""What the kernel's log says about GPUs and memory, where this account may read it."""

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Bytes of one record (kernel, Documentation/ABI/testing/dev-kmsg), and how many are read at most.
_RECORD, _MOST = 8192, 100_000
#: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."; NVIDIA, "XID Errors".
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),")
_KILLED = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Killed process (\d+) \((.*?)\)"
)


@dataclass(frozen=True)
class Xid:
    """An error of a GPU that its driver has logged."""

    bus: str  # "0000:3b:00"
    number: int


def lines(device: Path = Path("/dev/kmsg")) -> list[str]:
    """The texts of the kernel's ring buffer; none where it can't be read (dmesg_restrict)."""
    found: list[str] = []
    try:
        handle = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return found
    try:
        while len(found) < _MOST:
            try:
                record = os.read(handle, _RECORD)
            except BrokenPipeError:  # a record was overwritten meanwhile; the next read goes on
                continue
            if not record:
                break
            found.append(record.decode("utf-8", "replace").partition(";")[2].partition("\n")[0])
    except OSError:  # BlockingIOError: that was the last one
        pass
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
    return found


def xids(log: Sequence[str]) -> tuple[Xid, ...]:
    """The GPU errors in a log, each once."""
    matches = (_XID.search(line) for line in log)
    return tuple(dict.fromkeys(Xid(found[1], int(found[2])) for found in matches if found))


def killed(log: Sequence[str]) -> tuple[str, ...]:
    """The processes that the kernel has ended because memory ran out: "python (pid 12)"."""
    matches = (_KILLED.search(line) for line in log)
    return tuple(f"{found[2]} (pid {found[1]})" for found in matches if found)
