"""A log of bounded size: NAME, and what came before it as NAME.1, NAME.2 and so on.

Its writer here is the only one, so no line is lost between two files, and a full disk costs lines
but never holds the server that writes them.
"""

import contextlib
import os
from pathlib import Path


def rotate(path: Path, count: int) -> None:
    """Make room for a new file of that name; keeps `count` files in all."""
    for number in range(count - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # where only one is kept


def open_new(path: Path) -> int:
    """Open a log for writing at its end; only its owner reads it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


class RotatingLog:
    """The current file of a log."""

    def __init__(self, path: Path, size: int, count: int) -> None:
        """`size` in bytes; `count` files are kept in all. What is there is rotated away."""
        self.path = path
        self._size, self._count = size, count
        self._handle = -1
        self._written = 0
        self._named = True
        self._begin()

    def write(self, data: bytes) -> None:
        """Append, in a new file where this one is full."""
        if self._written + len(data) > self._size:
            self.renew()
        self._written += len(data)
        with contextlib.suppress(OSError):
            os.write(self._handle, data)

    def renew(self) -> None:
        """Begin a new file, unless this one is empty."""
        if self._written and self._named:
            self._begin()

    def cede(self) -> None:
        """Leave the name to another log; what is still written goes to the file as it is."""
        self._named = False

    def become(self, path: Path) -> None:
        """Take another name, and rotate away what has it."""
        if path == self.path:
            return
        with contextlib.suppress(OSError):
            rotate(path, self._count)
            self.path.replace(path)
        self.path = path

    def close(self) -> None:
        """Write no more."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _begin(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            rotate(self.path, self._count)
            self._handle = open_new(self.path)
        self._written = 0
