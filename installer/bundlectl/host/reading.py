"""Small reads of /proc, /sys and /etc: what is missing or refused is an empty text, never an error.

A number with the value UNLIMITED has no limit.
"""

import contextlib
from pathlib import Path

UNLIMITED = -1


def text(path: str | Path, limit: int = 1 << 20) -> str:
    """The text of a file, at most so many characters of it."""
    try:
        with Path(path).open("r", encoding="utf-8", errors="replace") as handle:
            return handle.read(limit)
    except (OSError, ValueError):
        return ""


def number(path: str | Path, missing: int = 0) -> int:
    """The first number of a file."""
    with contextlib.suppress(ValueError, IndexError):
        return int(text(path).split()[0])
    return missing


def names(folder: str | Path) -> tuple[str, ...]:
    """What a folder holds, sorted; nothing where it can't be read."""
    try:
        return tuple(sorted(entry.name for entry in Path(folder).iterdir()))
    except OSError:
        return ()
