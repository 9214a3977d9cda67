"""Read the end of a log, and what is written to it from then on, across its rotation."""

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

_POLL = 0.2  # seconds


def last_lines(path: Path, count: int) -> list[str]:
    """The last so many lines; none where there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, count)]
    except FileNotFoundError:
        return []


def follow(path: Path, count: int, poll: float = _POLL) -> Iterator[str]:
    """The last so many lines, then every new one, for ever; the name may pass to other files."""
    while not path.exists():
        time.sleep(poll)
    log = path.open(encoding="utf-8", errors="replace")
    try:
        yield from deque(log, count)
        while True:
            yield from log
            if _is_another(path, log.fileno()):
                yield from log  # what was written before it was renamed
                log.close()
                log = path.open(encoding="utf-8", errors="replace")
            else:
                time.sleep(poll)
    finally:
        log.close()


def _is_another(path: Path, handle: int) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:  # between two files
        return False
