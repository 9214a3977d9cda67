"""The table of what units may not do (hardening.toml)."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

SERVER, USER, AUDIT = "server", "user", "audit"


@dataclass(frozen=True)
class Row:
    """One line of a unit and its reason."""

    key: str
    value: str
    why: str
    units: tuple[str, ...]
    gpu: bool = False  # only where the release wants a GPU
    local: bool = False  # only where no other machine may reach the server


@dataclass(frozen=True)
class LeftOut:
    """A line that hardening guides ask for, and why it can't be."""

    key: str
    why: str


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / "hardening.toml").read_text("utf-8"))


def rows(unit: str, *, gpu: bool = True, local: bool = True) -> tuple[Row, ...]:
    """The lines of a kind of unit (SERVER, USER, AUDIT), in the table's order."""
    every = (
        Row(
            row["key"],
            row["value"],
            row["why"],
            tuple(row["in"]),
            row.get("gpu", False),
            row.get("local", False),
        )
        for row in _table()["rows"]
    )
    return tuple(
        row for row in every if unit in row.units and gpu >= row.gpu and local >= row.local
    )


def left_out() -> tuple[LeftOut, ...]:
    """What is left out of the server's unit."""
    return tuple(LeftOut(row["key"], row["why"]) for row in _table()["left_out"])
