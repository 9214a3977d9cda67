"""The glibc of a distribution, from its /etc/os-release and a table (`distributions.toml`).

Format of os-release: https://www.freedesktop.org/software/systemd/man/latest/os-release.html
"""

import difflib
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from manifests.errors import TargetError, UsageError
from manifests.records import from_data

_ASK = "give --glibc: the first line of `ldd --version` there ends in it"
#: Bytes; the real ones have a few hundred.
_LIMIT = 64 << 10


@dataclass(frozen=True)
class Distribution:
    """Releases of one distribution, and of those that are built like it."""

    id: str  # of os-release, in small letters
    glibc: dict[str, str] = field(default_factory=dict)  # VERSION_ID, or its start → version
    also: tuple[str, ...] = ()
    musl: bool = False


@dataclass(frozen=True)
class _Table:
    distributions: tuple[Distribution, ...]


def glibc_of(path: Path) -> tuple[str, str]:
    """The distribution that an os-release file describes, "rhel 8.6", and its glibc, "2.28".

    Raises UsageError where the file can't be read, or its distribution is not known; TargetError
    where it has no glibc.
    """
    fields = read(path)
    name, version = fields.get("ID", "linux").lower(), fields.get("VERSION_ID", "").lower()
    shown = f"{name} {version}".strip()
    known = table()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        raise UsageError(
            f"{path}: the distribution {name!r} is not known here",
            why=f"near to it are: {', '.join(near)}" if near else "",
            mend=_ASK,
        )
    if known[name].musl:
        raise TargetError(
            f"{path}: {shown} has musl as its C library",
            why="vLLM, torch and CUDA are published for glibc alone",
            mend="use a distribution with glibc there, or a container with one and --glibc",
        )
    for start in _starts(version):
        if start in known[name].glibc:
            return shown, known[name].glibc[start]
    raise UsageError(
        f"{path}: the release {version or '(none)'} of {name} is not known here",
        why=f"known are: {', '.join(known[name].glibc)}",
        mend=_ASK,
    )


def read(path: Path) -> dict[str, str]:
    """The fields of an os-release file.

    Raises UsageError for what can't be read, and for another kind of file.
    """
    try:
        with path.open("rb") as handle:
            text = handle.read(_LIMIT).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"--os-release {path}: {error.strerror}", mend="copy the host's /etc/os-release here"
        ) from None
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            fields[name] = _unquoted(value)
    if "ID" not in fields:
        raise UsageError(
            f"--os-release {path}: has no line ID=…", mend="copy the host's /etc/os-release here"
        )
    return fields


@cache
def table() -> dict[str, Distribution]:
    """Every known distribution by its ID."""
    data = (resources.files("bundler") / "distributions.toml").read_text("utf-8")
    found = from_data(_Table, tomllib.loads(data), "distributions.toml").distributions
    return {name: item for item in found for name in (item.id, *item.also)}


def _starts(version: str) -> Iterator[str]:
    """`8.6.1`, `8.6`, `8`: the most exact first."""
    parts = version.split(".")
    for count in range(len(parts), 0, -1):
        yield ".".join(parts[:count])


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value, comments=False))
    except ValueError:  # a quote that nobody closes
        return value.strip("'\"")
