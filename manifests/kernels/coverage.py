"""Coverage: how many containers of each file serve each GPU, and why the others don't."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manifests.kernels.images import Containers, FileKernels, Inventory
from manifests.kernels.rules import Level, Verdict, runs

#: Why a container has nothing for a GPU. `newer`: all of it is for newer GPUs, mostly a fast path
#: that host code picks where it can. `specific`: for exactly one other GPU or family, likewise.
#: `older`: all of it is for older GPUs and the PTX to carry on is missing: the real gap.
NEWER, SPECIFIC_ONLY, OLDER = "newer", "specific", "older"
_WORDS = {
    Level.NATIVE: "native",
    Level.COMPATIBLE: "compatible",
    Level.JIT: "PTX only",
    Level.TOO_NEW: "PTX too new",
    Level.NONE: "none",
}


@dataclass(frozen=True)
class Row:
    """One file and one GPU; every number counts containers."""

    path: str
    gpu: str  # "sm_86"
    native: int = 0
    compatible: int = 0
    ptx: int = 0
    too_new: int = 0  # PTX that the named driver is too old for
    newer: int = 0
    specific: int = 0
    older: int = 0
    driver: str = ""  # lowest that compiles all the PTX of `ptx` and `too_new`
    isa: str = ""  # PTX ISA version that this driver has to know
    uniform: bool = False
    restricted: bool = False  # all of its code is for single GPUs or families: a fast path

    @property
    def covered(self) -> int:
        """Containers whose kernels start."""
        return self.native + self.compatible + self.ptx

    @property
    def uncovered(self) -> int:
        """Containers whose kernels don't."""
        return self.too_new + self.newer + self.specific + self.older

    @property
    def total(self) -> int:
        """All containers."""
        return self.covered + self.uncovered

    @property
    def worst(self) -> Level:
        """The level of the container that is served worst."""
        counts = {
            Level.NONE: self.newer + self.specific + self.older,
            Level.TOO_NEW: self.too_new,
            Level.JIT: self.ptx,
            Level.COMPATIBLE: self.compatible,
        }
        return next((level for level, count in counts.items() if count), Level.NATIVE)

    def cell(self) -> str:
        """The row as a cell of a table: one word where one is enough, counts otherwise."""
        if self.worst.runs and self.ptx in (0, self.total):
            return _WORDS[self.worst]
        if not self.covered:
            return _WORDS[Level.TOO_NEW if self.too_new else Level.NONE]
        rest = {
            "PTX": self.ptx,
            "PTX too new": self.too_new,
            NEWER: self.newer,
            SPECIFIC_ONLY: self.specific,
            OLDER: self.older,
        }
        details = ", ".join(f"{count} {word}" for word, count in rest.items() if count)
        return f"{self.covered}/{self.total} ({details})"

    def as_record(self) -> dict[str, Any]:
        """The row as --json prints it."""
        return {
            "path": self.path,
            "gpu": self.gpu,
            "worst": self.worst.name.lower(),
            "containers": self.total,
            "native": self.native,
            "compatible": self.compatible,
            "ptx": self.ptx,
            "ptx_too_new": self.too_new,
            "none": {NEWER: self.newer, SPECIFIC_ONLY: self.specific, OLDER: self.older},
            "ptx_isa": self.isa,
            "ptx_driver": self.driver,
            "uniform": self.uniform,
        }


@dataclass(frozen=True)
class Coverage:
    """The answer for some GPUs and one driver ("" where it is not known)."""

    gpus: tuple[str, ...]
    driver: str
    rows: tuple[Row, ...]  # by file, then in the order of `gpus`
    makers: dict[str, tuple[str, ...]]  # maker of kernels at run time → files

    def as_record(self) -> dict[str, Any]:
        """The table as --json prints it."""
        return {
            "gpus": list(self.gpus),
            "driver": self.driver,
            "files": [row.as_record() for row in self.rows],
            "made_on_target": {maker: list(paths) for maker, paths in self.makers.items()},
        }


def coverage(inventory: Inventory, gpus: Iterable[str], driver: str = "") -> Coverage:
    """Lay the compatibility rules over everything that was found."""
    wanted = tuple(gpus)
    rows = tuple(_row(file, gpu, driver) for file in inventory.with_code() for gpu in wanted)
    return Coverage(wanted, driver, rows, inventory.makers())


def _row(file: FileKernels, gpu: str, driver: str) -> Row:
    counts: Counter[str] = Counter()
    jit: list[Verdict] = []
    for group in file.loadable():
        verdict = min(runs(image, gpu, driver) for image in group.runnable)
        counts[_column(verdict, group, gpu)] += group.count
        if verdict.isa:
            jit.append(verdict)
    newest = max(jit, key=lambda verdict: _isa(verdict.isa), default=None)
    return Row(
        file.path,
        gpu,
        **counts,
        driver=newest.driver if newest else "",
        isa=newest.isa if newest else "",
        uniform=file.uniform,
        restricted=all(image.variant for group in file.loadable() for image in group.runnable),
    )


def _column(verdict: Verdict, group: Containers, gpu: str) -> str:
    column = {
        Level.NATIVE: "native",
        Level.COMPATIBLE: "compatible",
        Level.JIT: "ptx",
        Level.TOO_NEW: "too_new",
    }.get(verdict.level)
    return column or _reason(group, int(gpu.removeprefix("sm_")))


def _reason(group: Containers, device: int) -> str:
    near = [image for image in group.runnable if int(image.arch) <= device]
    if not near:
        return NEWER
    return SPECIFIC_ONLY if all(image.variant for image in near) else OLDER


def _isa(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
