"""Which image a GPU runs, and how well.

Sources: NVIDIA's compatibility guides for Ada and Blackwell (machine code runs within a major
capability, on the same or a higher minor one; https://docs.nvidia.com/cuda/), the PTX ISA's
".target" directive (variants), and what ptxas 13.5 accepts where documents are silent.
"""

from dataclasses import dataclass
from enum import IntEnum

from manifests.kernels.images import FAMILY, PTX, SASS, SPECIFIC, Image
from manifests.kernels.releases import compiles, driver_for

#: Each family: a member's `f` code runs on that member and on later ones.
FAMILIES = (("100", "103", "107"), ("101",), ("110",), ("120", "121"))
#: Tegra's GPUs share no machine code with others of their major capability (CUDA C++ Programming
#: Guide, "Binary Compatibility": "not supported for Tegra").
TEGRA = frozenset({"53", "62", "72", "87", "88"})


class Level(IntEnum):
    """How an image serves a GPU; the lower, the better."""

    NATIVE = 0  # machine code for this GPU
    COMPATIBLE = 1  # machine code for an older GPU of the same major capability
    JIT = 2  # PTX, which the driver compiles when it is first loaded
    TOO_NEW = 3  # PTX that the driver is too old for
    NONE = 4

    @property
    def runs(self) -> bool:
        """Whether kernels start."""
        return self <= Level.JIT


@dataclass(frozen=True, order=True)
class Verdict:
    """How an image serves a GPU; verdicts are ordered, the best is the lowest."""

    level: Level
    isa: str = ""  # PTX ISA version that the driver has to know; PTX only

    @property
    def driver(self) -> str:
        """Lowest driver that compiles the PTX; empty for machine code and where not known."""
        return driver_for(self.isa)


NONE = Verdict(Level.NONE)


def runs(image: Image, gpu: str, driver: str = "") -> Verdict:
    """How an image serves a GPU ("sm_86"); without a driver's release every PTX compiles."""
    device = gpu.removeprefix("sm_")
    if image.kind == SASS and _machine_code(image, device):
        return Verdict(Level.NATIVE if image.arch == device else Level.COMPATIBLE)
    if image.kind == PTX and _portable(image, device):
        new = driver and not compiles(driver, image.isa)
        return Verdict(Level.TOO_NEW if new else Level.JIT, image.isa)
    return NONE


def _machine_code(image: Image, device: str) -> bool:
    if image.arch == device:
        return True
    if image.variant:
        return image.variant == FAMILY and _same_family(image.arch, device)
    if TEGRA & {image.arch, device}:
        return False
    return image.arch[:-1] == device[:-1] and image.arch[-1:] <= device[-1:]


def _portable(image: Image, device: str) -> bool:
    if image.variant == SPECIFIC:
        return image.arch == device
    if image.variant == FAMILY:
        return _same_family(image.arch, device)
    return int(image.arch) <= int(device)


def _same_family(arch: str, device: str) -> bool:
    return any(
        arch in family and device in family and int(arch) <= int(device) for family in FAMILIES
    )
