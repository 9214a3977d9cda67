"""What a plan says, as data: text, JSON and page are made of this and of nothing else."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from bundler.plan.licences import Licence
from bundler.saving import Saving
from manifests.console import size
from manifests.lock import Target
from manifests.stack import Compiler

#: Groups of items, in the order of their colours.
GROUPS = WEIGHTS, CUDA, TORCH, VLLM, OTHERS, CONDA, RUNTIME = (
    "weights",
    "CUDA libraries",
    "torch",
    "vllm",
    "other wheels",
    "Python and conda",
    "bundle's runtime",
)
#: What an item is.
FILE, WHEEL, CONDA_PACKAGE = "file of the model", "wheel", "conda package"
#: How GPU code stands: all there, something missing that others make up for, or fatal.
GOOD, GAP, BAD = "good", "gap", "bad"
#: Where bytes lie: on this machine, or on the isolated one.
HERE, THERE = "connected", "isolated"


@dataclass(frozen=True)
class Amount:
    """Bytes, known or estimated."""

    bytes: int
    exact: bool = True

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.bytes + other.bytes, self.exact and other.exact)

    def __str__(self) -> str:
        return f"{'' if self.exact else '≈ '}{size(self.bytes)}"


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum, exact where every part is."""
    return sum(amounts, Amount(0))


@dataclass(frozen=True)
class Item:
    """One thing that goes in: a package, or a file of the model."""

    name: str
    version: str
    group: str
    size: int  # bytes as it is fetched; 0 where its source does not say
    installed: Amount
    kind: str  # FILE, WHEEL or CONDA_PACKAGE
    licence: Licence | None = None  # None: not known before the fetch; not read of conda packages


@dataclass(frozen=True)
class Other:
    """A stack that was not taken."""

    name: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class StackPart:
    """The stack, and why it and no other."""

    name: str
    summary: str
    reason: str
    notes: tuple[str, ...]  # what is not known, or concerns some models only
    others: tuple[Other, ...]
    conflicts: tuple[str, ...]  # known ones, which the stack's own pins avoid
    architectures: tuple[str, ...]
    flavours: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """What one library has for each of the target's GPUs."""

    library: str
    verdicts: dict[str, str]  # GPU → "machine code", "none", …
    mood: str  # GOOD, GAP or BAD
    remark: str = ""  # "fast path": where it has no code another part does the work


@dataclass(frozen=True)
class Kernels:
    """GPU code, for each library that has some."""

    source: str  # where this is known from, a sentence
    libraries: tuple[Coverage, ...] = ()
    problems: tuple[str, ...] = ()  # what stops `bundle create`, a sentence each


@dataclass(frozen=True)
class Slice:
    """A part of one GPU's memory."""

    name: str
    bytes: int


@dataclass(frozen=True)
class FitPart:
    """Whether the model fits into the target's memory."""

    fits: bool | None  # None: not known
    sentence: str
    memory: int = 0  # bytes of one GPU; 0 unknown
    slices: tuple[Slice, ...] = ()
    alternatives: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)  # all that `manifests.fit` says


@dataclass(frozen=True)
class Further:
    """A model or an adapter beside the default model; one model is served at a time."""

    name: str
    text: str  # where it is from
    bytes: int
    licence: Licence
    fit: FitPart | None  # None for an adapter, which takes next to nothing


@dataclass(frozen=True)
class Volumes:
    """The archive on the media."""

    total: Amount
    size: int  # most bytes of a volume; 0: one file
    count: int

    def __str__(self) -> str:
        if not self.size:
            return f"one file, {self.total}"
        about = "" if self.total.exact else "about "
        return f"{about}{self.count} of at most {size(self.size)}, {self.total} together"


@dataclass(frozen=True)
class Need:
    """Disk that something takes."""

    side: str  # HERE or THERE
    place: str
    what: str
    amount: Amount


@dataclass(frozen=True)
class Plan:
    """Everything that is known about a bundle before it is made."""

    model: str
    model_bytes: int  # 0: not known without a download
    model_licence: Licence
    target: Target
    gpu_asked: str  # as it was described, "a10"
    stack: StackPart
    channel: str
    index: tuple[str, ...]
    output: str
    resolution: str  # where the packages are known from, or why they are not
    items: tuple[Item, ...]  # largest first
    kernels: Kernels
    fit: FitPart
    volumes: Volumes | None  # None: not known before the packages are
    disk: tuple[Need, ...]
    compilers: tuple[Compiler, ...]
    flash_attention: str
    notes: tuple[str, ...]
    promise: str  # what this run did not do
    further: tuple[Further, ...] = ()
    beneath: str = ""  # what the host's own environment gives an overlay
    delta: Saving | None = None  # what a delta would carry, where that is known

    @property
    def packages(self) -> tuple[Item, ...]:
        """The items that are not the model's."""
        return tuple(item for item in self.items if item.group != WEIGHTS)

    @property
    def to_look_at(self) -> tuple[Item, ...]:
        """Packages whose stated licence a person should read."""
        return tuple(item for item in self.packages if item.licence and item.licence.needs_look)

    def disk_of(self, side: str) -> Amount:
        """Everything that one side needs."""
        return total(need.amount for need in self.disk if need.side == side)

    def as_record(self) -> dict[str, Any]:
        """The plan as --json prints it: every field, and the sums."""
        return asdict(self) | {
            "groups": [
                {"name": group.name, "count": group.count, "size": group.size}
                for group in groups(self.items)
            ],
            "disk_total": {side: asdict(self.disk_of(side)) for side in (HERE, THERE)},
            "licences_to_look_at": [
                {"name": item.name, "version": item.version, **asdict(item.licence)}
                for item in self.to_look_at
                if item.licence is not None
            ],
        }


@dataclass(frozen=True)
class Group:
    """Items of one kind."""

    name: str
    items: tuple[Item, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.items)

    @property
    def size(self) -> int:
        """Bytes as fetched."""
        return sum(item.size for item in self.items)


def groups(items: Iterable[Item]) -> list[Group]:
    """The items by group, the largest group first; items of a group largest first."""
    found: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: (-item.size, item.name)):
        found.setdefault(item.group, []).append(item)
    made = [Group(name, tuple(members)) for name, members in found.items()]
    return sorted(made, key=lambda group: -group.size)
