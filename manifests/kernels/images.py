"""What a file holds of GPU code: images, containers, files, and an inventory of them.

A *container* (NVIDIA's "fat binary") holds one translation unit, compiled for several GPUs: each
result is an *image*. A GPU takes one image of every container or can't launch that unit's kernels,
so the container is the unit of coverage. The union over a file misleads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

#: Kinds of image: machine code, NVIDIA's portable assembly, and link-time intermediate code.
SASS, PTX, LTO = "sass", "ptx", "lto"
#: Variants: code for exactly one GPU ("sm_90a"), and for one family ("sm_100f").
SPECIFIC, FAMILY = "a", "f"
#: Where containers stand: registered by the host code, loaded by it from its data, a bare cubin,
#: or kept beside the device-linked result so that a driver can link again.
SECTION, DATA, CUBIN, RELOCATABLE = "", "data", "cubin", "relocatable"
#: Share of a file's containers that have to agree before it is called uniform.
_UNIFORM = 0.95


@dataclass(frozen=True, order=True)
class Image:
    """The code of one translation unit for one GPU."""

    kind: str
    arch: str  # compute capability without the dot, "86"
    variant: str = ""
    isa: str = ""  # PTX ISA version, "8.8"; PTX only

    def __str__(self) -> str:
        prefix = {SASS: "sm", PTX: "compute"}.get(self.kind, self.kind)
        return f"{prefix}_{self.arch}{self.variant}"


@dataclass(frozen=True)
class Containers:
    """`count` containers of one file that hold the same images."""

    images: tuple[Image, ...]  # sorted, each once
    count: int = 1
    carrier: str = SECTION
    empty: bool = False  # no kernel is in it: nothing that a GPU could lack

    @property
    def runnable(self) -> tuple[Image, ...]:
        """What a driver can load: not code that has still to be linked by nvJitLink."""
        if self.empty:
            return ()
        return tuple(image for image in self.images if image.kind in (SASS, PTX))


@dataclass(frozen=True)
class FileKernels:
    """The GPU code of one file, or of a folder's bare cubins ("folder/*.cubin")."""

    path: str  # relative to what was scanned, "/" between parts
    containers: tuple[Containers, ...] = ()
    made_on_target: tuple[str, ...] = ()  # makers of kernels at run time, "triton"

    def loadable(self) -> tuple[Containers, ...]:
        """The containers that count for coverage.

        A device-linked library keeps the objects that it was linked from. A driver that finds no
        machine code compiles their PTX and links again ("Just-In-Time Linking", CUDA Compiler
        Driver documentation), so that PTX serves the linked containers, which have none.
        """
        groups = tuple(group for group in self.containers if group.runnable)
        linked = [group for group in groups if group.carrier != RELOCATABLE]
        objects = [group for group in groups if group.carrier == RELOCATABLE]
        if not linked or not objects:
            return groups
        shared = sorted(set.intersection(*(_ptx(group) for group in objects)))
        return tuple(
            group
            if _ptx(group) or group.carrier != SECTION
            else replace(group, images=(*group.images, *shared))
            for group in linked
        )

    @property
    def count(self) -> int:
        """How many containers count for coverage."""
        return sum(group.count for group in self.loadable())

    @property
    def uniform(self) -> bool:
        """Whether every unit was meant to run on the same GPUs, as in torch and flash-attn.

        Bare cubins are not: each holds a kernel for one GPU, and the host code picks.
        """
        counts: dict[frozenset[str], int] = {}
        for group in self.loadable():
            if group.carrier == CUBIN:
                return False
            names = frozenset(map(str, group.runnable))
            counts[names] = counts.get(names, 0) + group.count
        return bool(counts) and max(counts.values()) >= _UNIFORM * sum(counts.values())


def _ptx(group: Containers) -> set[Image]:
    return {image for image in group.images if image.kind == PTX}


@dataclass(frozen=True)
class Inventory:
    """The GPU code of everything that was scanned, sorted by path."""

    files: tuple[FileKernels, ...] = ()

    def with_code(self) -> Iterator[FileKernels]:
        """The files that hold kernels, not only makers of them."""
        return (file for file in self.files if file.count)

    def makers(self) -> dict[str, tuple[str, ...]]:
        """Maker of kernels at run time → the files that use it."""
        found: dict[str, list[str]] = {}
        for file in self.files:
            for maker in file.made_on_target:
                found.setdefault(maker, []).append(file.path)
        return {maker: tuple(paths) for maker, paths in sorted(found.items())}
