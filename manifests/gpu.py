"""GPU targets: what `--gpu` accepts, as compute capabilities, and what a product's name says.

Spelling follows nvcc's `sm_XY` (CUDA Compiler Driver documentation, "GPU Feature List"); the
products are data, in `gpus.toml`.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

from manifests.errors import TargetError, UsageError
from manifests.records import from_data

CPU = "cpu"
X86_64, AARCH64 = "x86_64", "aarch64"
GIB = 1 << 30
#: Compute capabilities that CUDA 12 and 13 know, as major.minor without the dot: nvcc's list; 88 is
#: CUDA 13's, 107 CUDA 13.4's; 101 was renamed 110 with CUDA 13.0.
CAPABILITIES = (
    "70", "72", "75", "80", "86", "87", "88", "89", "90",
    "100", "101", "103", "107", "110", "120", "121",
)  # fmt: skip
#: What CUDA 12 has dropped or deprecated, and no vLLM wheel has code for.
TOO_OLD = ("35", "37", "50", "52", "53", "60", "61", "62")
_CAPABILITY = re.compile(r"(?:sm_?)?(\d{1,2})\.?(\d)", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"(\d{1,3})\s*x\s*(.+)", re.IGNORECASE | re.ASCII)
_MEMORY = re.compile(r"\b(\d{1,3})\s*g(?:i?b)?\b", re.ASCII)
#: Words of names that change neither capability nor memory: makers, brands, form factors.
_NOISE = re.compile(
    r"\b(nvidia|tesla|geforce|jetson|graphics|gpu|device|generation|edition|ac|pcie|sxm\d?|fhhl|dgxs"
    r"|hbm\d?e?|blackwell|server|workstation|with|max q|design)\b"
)


@dataclass(frozen=True, order=True)
class Capability:
    """A compute capability; they compare as numbers, so that 9.0 is below 10.0."""

    major: int
    minor: int

    def __str__(self) -> str:
        """As NVIDIA writes it, "8.6"."""
        return f"{self.major}.{self.minor}"

    @property
    def sm(self) -> str:
        """As nvcc writes it, "sm_86"."""
        return f"sm_{self.major}{self.minor}"


@dataclass(frozen=True)
class Gpu:
    """GPUs of one kind."""

    name: str  # the product's, or "sm_86" where only that was said, or "cpu"
    capability: str  # "sm_86" or "cpu"
    memory: int = 0  # bytes of each; 0: not known
    count: int = 0  # 0: not said
    arch: str = X86_64  # of the machines that it is built into
    note: str = ""  # a sentence, where something was assumed


@dataclass(frozen=True)
class _Product:
    name: str
    capability: Capability
    sizes: tuple[int, ...]  # GiB
    arch: str


@dataclass(frozen=True)
class _Group:
    capability: str
    products: dict[str, tuple[int, ...]] = field(default_factory=dict)
    arch: str = X86_64


@dataclass(frozen=True)
class _Table:
    groups: tuple[_Group, ...]


def capability(text: str) -> Capability:
    """A capability spelt `sm_86`, `8.6` or `86`; also one that is too old, or that nobody knows.

    Raises UsageError.
    """
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no compute capability", mend="for example sm_86 or 8.6")
    return Capability(int(match[1]), int(match[2]))


def parse(text: str) -> tuple[str, ...]:
    """What `--gpu` says, as capabilities by their number: "sm_86", or "cpu" alone.

    Raises as `products` does.
    """
    found = {item.capability for item in products(text)}
    return tuple(sorted(found, key=lambda name: () if name == CPU else capability(name).__hash_key()))


def products(text: str) -> tuple[Gpu, ...]:
    """The GPUs in a comma-separated list: `cpu`, `sm_86`, `8.6`, `a10`, `2x h100`.

    Raises UsageError for what is not known (naming the nearest) and for `cpu` beside a GPU,
    TargetError for GPUs that no vLLM runs on.
    """
    found = tuple(_one(part.strip()) for part in text.split(","))
    if len(found) > 1 and CPU in {item.capability for item in found}:
        if all(item.capability == CPU for item in found):
            return found[:1]
        raise UsageError(
            f"--gpu {text}: cpu stands beside a GPU",
            why="one bundle holds one serving environment",
            mend="make two bundles",
        )
    return found


def product(name: str) -> Gpu:
    """The product that `nvidia-smi` or a person calls so: `NVIDIA H100 80GB HBM3`, `rtx4090`.

    Raises UsageError naming the nearest, TargetError for one that is too old.
    """
    found = _look_up(name)
    if found is None:
        raise _unknown(name)
    return found


def _one(text: str) -> Gpu:
    if text.lower() == CPU:
        return Gpu(CPU, CPU)
    if counted := _COUNT.fullmatch(text):
        return replace(_one(counted[2]), count=int(counted[1]))
    match = _CAPABILITY.fullmatch(text)
    number = f"{match[1]}{match[2]}" if match else ""
    if number in CAPABILITIES:
        return Gpu(f"sm_{number}", f"sm_{number}")
    if number in TOO_OLD:
        raise _too_old(text, capability(text))
    return product(text)
