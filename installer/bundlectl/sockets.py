"""Unix sockets in state/run, however long the prefix is."""

import os
from functools import cache
from pathlib import Path

from bundlectl.layout import Layout

#: Bytes that a Unix socket's name has room for (unix(7): sun_path, with a NUL at its end).
_LONGEST = 107


def file_name(name: str) -> str:
    """The socket's file, for a process whose working folder is state/run."""
    return f"{name}.sock"


def socket_path(layout: Layout, name: str) -> str:
    """A path by which this process can bind or reach a socket; only its account gets there."""
    path = layout.run / file_name(name)
    if len(os.fsencode(path)) <= _LONGEST:
        return str(path)
    return f"/proc/self/fd/{_entrance(layout.run)}/{path.name}"


@cache
def _entrance(folder: Path) -> int:
    return os.open(folder, os.O_PATH | os.O_DIRECTORY)
