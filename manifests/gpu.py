"""GPU targets: what `--gpu` accepts, as compute capabilities, and what a product's name says.

Spelling follows nvcc's `sm_XY` (CUDA Compiler Driver documentation, "GPU Feature List"); the
products are data, in `gpus.toml`.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
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
_COUNT = re.compile(r"([1-9]\d{0,2})\s*x\s*(.+)", re.IGNORECASE | re.ASCII)
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
    def number(self) -> str:
        """Without the dot, "86"."""
        return f"{self.major}{self.minor}"

    @property
    def sm(self) -> str:
        """As nvcc writes it, "sm_86"."""
        return f"sm_{self.number}"


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
    """What `--gpu` says as capabilities, lowest first: "sm_86", or "cpu" alone.

    Raises as `products` does.
    """
    return capabilities(products(text))


def capabilities(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The capabilities of GPUs, each once, lowest first; "cpu" where that is all there is."""
    found = {item.capability for item in gpus}
    return (CPU,) if found == {CPU} else tuple(sorted(found, key=capability))


def products(text: str) -> tuple[Gpu, ...]:
    """The GPUs in a comma-separated list: `cpu`, `sm_86`, `8.6`, `a10`, `2x h100`.

    Raises UsageError for what is not known (naming the nearest) and for `cpu` beside a GPU,
    TargetError for GPUs that no vLLM runs on.
    """
    found = tuple(_one(part.strip()) for part in text.split(","))
    kinds = {item.capability for item in found}
    if CPU in kinds and len(kinds) > 1:
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
    text = _plain(name.partition(" MIG ")[0])
    found = _index().get(_key(text))
    if found is not None:
        return _gpu(found, 0)
    asked = _MEMORY.search(text)
    found = _index().get(_key(_MEMORY.sub("", text)))
    if found is None or asked is None:
        raise _unknown(name)
    if int(asked[1]) not in found.sizes:
        raise UsageError(
            f"{found.name} does not come with {asked[1]} GB",
            mend=f"it comes with {_either(found.sizes)} GB; give a compute capability otherwise",
        )
    return _gpu(found, int(asked[1]))


def _one(text: str) -> Gpu:
    if text.lower() == CPU:
        return Gpu(CPU, CPU)
    counted = _COUNT.fullmatch(text)
    kind = counted[2] if counted else text
    if kind.lower() == CPU:
        raise _unknown(text)
    match = _CAPABILITY.fullmatch(kind)
    number = f"{match[1]}{match[2]}" if match else ""
    if number in TOO_OLD:
        raise _too_old(kind, capability(kind))
    known = number in CAPABILITIES
    found = Gpu(f"sm_{number}", f"sm_{number}") if known else product(kind)
    return replace(found, count=int(counted[1])) if counted else found


def _gpu(found: _Product, asked: int) -> Gpu:
    """A product with the memory that was asked for (GiB), or else its smallest."""
    if found.capability.number in TOO_OLD:
        raise _too_old(found.name, found.capability)
    smallest = min(found.sizes, default=0)
    note = ""
    if len(found.sizes) > 1 and not asked:
        note = (
            f"{found.name} comes with {_either(found.sizes)} GB: {smallest} GB is assumed "
            f"(--gpu {_key(_plain(found.name))}-{found.sizes[-1]}gb says otherwise)"
        )
    memory = (asked or smallest) * GIB
    return Gpu(found.name, found.capability.sm, memory, arch=found.arch, note=note)


def _plain(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def _key(plain: str) -> str:
    return _NOISE.sub("", plain).replace(" ", "")


@cache
def table() -> tuple[_Product, ...]:
    """Every product that is known, in the order of their capabilities."""
    data = (resources.files("manifests") / "gpus.toml").read_text("utf-8")
    return tuple(
        _Product(name, capability(group.capability), sizes, group.arch)
        for group in from_data(_Table, tomllib.loads(data), "gpus.toml").groups
        for name, sizes in group.products.items()
    )


@cache
def _index() -> dict[str, _Product]:
    """Products by the letters and digits of their names; `4090` does for `RTX 4090`."""
    full = {_key(_plain(item.name)): item for item in table()}
    short = {key.removeprefix("rtx").removeprefix("gtx"): item for key, item in full.items()}
    return short | full


def _either(sizes: tuple[int, ...]) -> str:
    return " or ".join(str(size) for size in sizes)


def _too_old(name: str, which: Capability) -> TargetError:
    return TargetError(
        f"{name} has compute capability {which}, which is too old",
        why="the oldest that any vLLM wheel has code for is 7.0 (Volta)",
        mend="use a newer GPU, or --gpu cpu",
    )


def _unknown(text: str) -> UsageError:
    known = [CPU, *(f"sm_{number}" for number in CAPABILITIES)]
    names = [*known, *_index()]
    near = difflib.get_close_matches(text.lower(), names, n=3)
    near = near or difflib.get_close_matches(_key(_plain(text)), names, n=3)
    return UsageError(
        f"unknown GPU {text!r}",
        mend=f"did you mean {' or '.join(near)}?"
        if near
        else f"choose from: {', '.join(known)}, or name a product, such as a10 or h200",
    )
