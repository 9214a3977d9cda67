"""The logs in tests/data/doctor: cases in their frames, and whole logs."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data/doctor"


@dataclass(frozen=True)
class Case:
    """A failure, and a log of it."""

    rule: str  # that ranks first in it; empty: nobody is ill
    text: str
    host: tuple[str, ...] = ()  # probes that hold


@cache
def frames() -> dict[str, Any]:
    """What stands around a case's lines."""
    return tomllib.loads((DATA / "frames.toml").read_text("utf-8"))


def cases() -> Iterator[Case]:
    """All cases, each in its frame."""
    for path in sorted((DATA / "cases").glob("*.toml")):
        for case in tomllib.loads(path.read_text("utf-8"))["cases"]:
            assert case["origin"], case
            frame = frames()[case["frame"]]
            lines = case["log"].rstrip("\n").split("\n")
            own = "".join(f"{frame['prefix']}{line}\n" for line in lines)
            text = f"{frame['before']}{own}{frame['after']}"
            yield Case(case["rule"], text, tuple(case.get("host", ())))


def by_rule() -> dict[str, list[Case]]:
    """All cases of each rule."""
    found: dict[str, list[Case]] = {}
    for case in cases():
        found.setdefault(case.rule, []).append(case)
    return found


def whole_logs() -> Iterator[tuple[str, Path]]:
    """The rule that ranks first in each whole log, and its file."""
    for log in tomllib.loads((DATA / "logs.toml").read_text("utf-8"))["logs"]:
        yield log["rule"], DATA / log["file"]
