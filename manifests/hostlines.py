"""What each line of a host's report says; see manifests.hostreport for the whole."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
UNKNOWN, NONE = "unknown", "none"
#: Lines without which a report describes nothing.
NEEDED = ("arch", "libc", "gpu")
#: Lines that may come several times, and the fields that hold them.
OFTEN, LISTS = ("gpu", "disk", "note"), ("gpus", "disks", "notes")


@dataclass(frozen=True)
class HostGpu:
    """GPUs, or slices of them (MIG), of one kind."""

    name: str  # as nvidia-smi prints it
    capability: str = ""  # "8.6"; empty where nvidia-smi is too old to say
    memory: int = 0  # bytes of each; 0: not known
    count: int = 1


@dataclass(frozen=True)
class Disk:
    """A file system on which a bundle could be installed."""

    folder: str
    free: int  # bytes


def parse(key: str, value: str) -> dict[str, Any]:
    """The fields of a HostReport that a line sets; for those in LISTS, one more item.

    Raises ValueError saying what is wrong.
    """
    if key not in _KINDS:
        near = difflib.get_close_matches(key, _KINDS, n=1)
        raise ValueError(f"did you mean {near[0]!r}?" if near else "nothing that a report says")
    pattern, example, build = _KINDS[key]
    match = re.fullmatch(pattern, value, re.IGNORECASE | re.ASCII)
    if match is None or not value.isascii():
        raise ValueError(f"should look like `{key}: {example}`")
    return build(match)


def mib(count: int) -> str:
    """Bytes as a line gives them."""
    return f"{count // MIB} MiB" if count else UNKNOWN


def _count(text: str | None) -> int:
    """Bytes of a figure in MiB."""
    return int(text or 0) * MIB


def _text(name: str) -> Callable[["re.Match[str]"], dict[str, Any]]:
    """Take the value as it is; what is not known is empty."""

    def build(match: "re.Match[str]") -> dict[str, Any]:
        return {name: "" if match[0].lower() in (UNKNOWN, NONE) else match[0]}

    return build


def _libc(match: "re.Match[str]") -> dict[str, Any]:
    return {"libc": match["name"].lower(), "libc_version": match["version"] or ""}


def _gpu(match: "re.Match[str]") -> dict[str, Any]:
    if match["name"] is None:
        return {"gpus_unknown": match[0].lower() == UNKNOWN}
    found = HostGpu(
        match["name"], match["capability"] or "", _count(match["memory"]), int(match["count"])
    )
    return {"gpus": found}


def _cpu(match: "re.Match[str]") -> dict[str, Any]:
    flags = tuple((match["flags"] or "").lower().split())
    return {"processors": int(match["count"]), "cpu_flags": flags}


_FIGURE = r"(?:(?P<memory>\d{1,12}) MiB|unknown)"
#: key → what its value has to look like, an example, and what it says.
_KINDS: dict[str, tuple[str, str, Callable[["re.Match[str]"], dict[str, Any]]]] = {
    "arch": (r"[a-z0-9_]{2,20}", "x86_64", lambda match: {"arch": match[0].lower()}),
    "os": (r".{1,72}", "ubuntu 22.04", _text("os")),
    "kernel": (r"\S{1,64}", "5.15.0-105-generic", _text("kernel")),
    "libc": (
        r"(?:(?P<name>glibc|musl)(?: (?P<version>\d{1,3}(?:\.\d{1,3}){1,2}))?|(?P<none>unknown))",
        "glibc 2.35",
        lambda match: _libc(match) if match["name"] else {"libc": UNKNOWN},
    ),
    "driver": (r"none|unknown|\d{3,4}(?:\.\d{1,4}){1,2}", "535.104.05", _text("driver")),
    "gpu": (
        r"none|unknown|(?P<count>[1-9]\d{0,3}) x (?P<name>[^,]{1,60}), "
        rf"(?:(?P<capability>\d{{1,2}}\.\d)|unknown), {_FIGURE}",
        "2 x NVIDIA A10, 8.6, 23028 MiB",
        _gpu,
    ),
    "cpu": (r"(?P<count>\d{1,5})(?:, (?P<flags>[a-z0-9_ ]{1,60}))?", "64, avx2 avx512f", _cpu),
    "memory": (_FIGURE, "257698 MiB", lambda match: {"memory": _count(match["memory"])}),
    "disk": (
        rf"(?P<folder>/[^,]{{0,60}}), {_FIGURE}",
        "/opt, 812345 MiB",
        lambda match: {"disks": Disk(match["folder"], _count(match["memory"]))},
    ),
    "note": (r".{1,120}", "WSL", lambda match: {"notes": match[0]}),
}
