"""Check digits for lines that people read out, photograph and type in again.

The line `check` has three digits for each line above it, so that a misread one can be named: the
first of the sha256 of the line in small letters and without blanks (so neither counts), with 0 to 5
for a to f. A shell can make them with what install.sh needs too; BusyBox often lacks `cksum`.
"""

import hashlib
import re
from collections.abc import Sequence

KEY = "check"
_NO_LETTERS = str.maketrans("abcdef", "012345")


def digits(line: str) -> str:
    """The three digits that stand for a line."""
    plain = "".join(line.split()).lower().encode()
    return hashlib.sha256(plain).hexdigest()[:3].translate(_NO_LETTERS)


def seal(lines: Sequence[str]) -> str:
    """The check line for the lines above it."""
    return f"{KEY}: {' '.join(digits(line) for line in lines)}"


def misread(lines: Sequence[str], sealed: str) -> list[int]:
    """Which lines, from 0, don't have the digits that a check line's value gives them.

    Raises ValueError where it is no row of digits, or not as long as there are lines.
    """
    given = "".join(sealed.split())
    if not re.fullmatch(r"[0-9]+", given) or len(given) % 3:
        raise ValueError("three digits are needed for each line above it")
    groups = [given[start : start + 3] for start in range(0, len(given), 3)]
    if len(groups) != len(lines):
        raise ValueError(f"it has digits for {len(groups)} lines, above it are {len(lines)}")
    return [place for place, line in enumerate(lines) if digits(line) != groups[place]]
