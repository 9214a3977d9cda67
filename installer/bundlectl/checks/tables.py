"""The meanings of CUDA's results and of Xid errors, from `cuda.toml` and `xid.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from manifests.records import from_data


@dataclass(frozen=True)
class Result:
    """A CUresult."""

    code: int
    name: str
    meaning: str
    mend: str


@dataclass(frozen=True)
class _Results:
    default: str
    results: tuple[Result, ...]


@dataclass(frozen=True)
class _Xids:
    meanings: dict[str, str]


@cache
def _results() -> _Results:
    return from_data(_Results, _read("cuda.toml"), "cuda.toml")


def result(code: int) -> Result:
    """What a CUresult means; of one that is not in the table, its number."""
    table = _results()
    unknown = Result(code, f"CUresult {code}", "an error that is not in this release's table", "")
    found = next((one for one in table.results if one.code == code), unknown)
    return found if found.mend else Result(code, found.name, found.meaning, table.default)


@cache
def xids() -> Mapping[int, str]:
    """What the Xid errors that speak of hardware mean."""
    table = from_data(_Xids, _read("xid.toml"), "xid.toml")
    return {int(number): meaning for number, meaning in table.meanings.items()}


def _read(name: str) -> Any:
    return tomllib.loads((resources.files("bundlectl.checks") / name).read_text("utf-8"))
