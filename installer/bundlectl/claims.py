"""What two servers of one machine can't share: a port, and as a rule a GPU. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bundlectl import nvidia
from bundlectl.nvidia import Gpu


@dataclass(frozen=True)
class Claim:
    """What one instance's settings ask for."""

    name: str
    port: int
    gpus: str = ""  # of etc/serve.toml; empty: all
    on_gpu: bool = True  # whether its release serves on GPUs at all


@dataclass(frozen=True)
class Clash:
    """Two claims that don't go together; `certain` is off where that can't be told for sure."""

    text: str
    certain: bool = True


def clashes(mine: Claim, others: Iterable[Claim], found: Sequence[Gpu]) -> tuple[Clash, ...]:
    """What is in the way of a claim. `found` are the GPUs of the machine, as far as they are known.

    Two servers on one GPU is no clash that can be told for sure where one of them names no GPUs.
    """
    told: list[Clash] = []
    for other in others:
        if mine.port == other.port:
            told.append(Clash(f"port {mine.port} is that of the instance {other.name}"))
        if mine.on_gpu and other.on_gpu:
            told += _gpus(mine, other, found)
    return tuple(told)


def _gpus(mine: Claim, other: Claim, found: Sequence[Gpu]) -> list[Clash]:
    for one in (mine, other):
        if not one.gpus:
            return [Clash(f"the instance {one.name} may take any GPU: it names none", False)]
    ours, theirs = _names(mine.gpus, found), _names(other.gpus, found)
    shared = [text for name, text in ours.items() if name in theirs]
    if shared:
        gpus = f"GPU {', '.join(shared)}"
        return [Clash(f"{gpus} of {mine.gpus!r} is in {other.gpus!r} of the instance {other.name}")]
    if {_kind(name) for name in ours} != {_kind(name) for name in theirs}:
        what = f"whether {mine.gpus!r} and {other.gpus!r} of the instance {other.name} share a GPU"
        return [Clash(f"{what} can't be told here", False)]
    return []


def _names(gpus: str, found: Sequence[Gpu]) -> dict[str, str]:
    """The name of each GPU, as far as the machine knows it, and how the settings call it."""
    names = {}
    for entry in gpus.split(","):
        known = nvidia.visible(found, entry)
        names[known[0].uuid if known else entry] = entry
    return names


def _kind(name: str) -> str:
    return "number" if name.isdecimal() else name.partition("-")[0]
