"""The figures and rules of `tables.toml`, as records."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from manifests.errors import UsageError
from manifests.records import from_data


@dataclass(frozen=True)
class Arch:
    """One value of FLASH_ATTN_CUDA_ARCHS and the GPUs that its machine code runs on."""

    value: str  # "80"
    gpus: tuple[str, ...]  # "sm_86"
    cuda: str  # the oldest toolkit with which setup.py takes it


@dataclass(frozen=True)
class Change:
    """A text to be replaced in the source, from a release of torch on."""

    path: str
    old: str
    new: str
    torch: str  # lowest release of torch that needs it, "2.14"
    reason: str


@dataclass(frozen=True)
class Release:
    """One release of the source."""

    version: str
    units: int  # translation units
    patches: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Cost:
    """What one unit and one architecture cost, and the whole build."""

    seconds: int  # of one core, per unit and architecture
    memory: int  # bytes, per unit
    disk: int  # bytes, the whole build


@dataclass(frozen=True)
class Tools:
    """Requirements of the build environment beside torch."""

    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Abi:
    """Since when torch's wheels have the new C++ ABI."""

    since: str


@dataclass(frozen=True)
class Glibc:
    """What code that was compiled on a newer system asks for."""

    floor: str  # "2.32"
    symbol: str


@dataclass(frozen=True)
class Toolkit:
    """One release of the CUDA compilers."""

    cuda: str  # "13.0"
    gcc: int  # newest major release of g++ that it accepts
    requirements: tuple[str, ...]  # the wheels that hold it; none: PyPI has no nvcc of it


@dataclass(frozen=True)
class Tables:
    """The whole file."""

    archs: tuple[Arch, ...]
    releases: tuple[Release, ...]
    cost: Cost
    tools: Tools
    abi: Abi
    glibc: Glibc
    toolkits: tuple[Toolkit, ...]

    def release(self, version: str) -> Release:
        """A release by its version.

        Raises UsageError naming the known ones.
        """
        for release in self.releases:
            if release.version == version:
                return release
        known = ", ".join(release.version for release in self.releases)
        raise UsageError(
            f"flash-attn {version} is not known to this release of vllm-bundle",
            mend=f"choose one of {known}, or bring a wheel with --flash-attn-wheel",
        )

    def toolkit(self, cuda: str) -> Toolkit:
        """The compilers for a CUDA release, "13.0"; an unknown one is on no package index."""
        for toolkit in self.toolkits:
            if toolkit.cuda == cuda:
                return toolkit
        return Toolkit(cuda, gcc=0, requirements=())


@cache
def tables() -> Tables:
    """The tables, read once."""
    text = (resources.files(__package__) / "tables.toml").read_text("utf-8")
    return from_data(Tables, tomllib.loads(text), "tables.toml")
