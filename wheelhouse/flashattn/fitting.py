"""Whether a flash-attn wheel fits: read from its name, its metadata and its binaries.

What a name says is compared, and nothing is taken from it: prebuilt wheels carry `linux_x86_64`
whatever glibc they need (Dao-AILab/flash-attention#1708), and none says its architectures.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_version, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from manifests.errors import IntegrityError, UsageError
from manifests.kernels import coverage
from wheelhouse import elf, kernels, record
from wheelhouse.elf.symbols import symbols
from wheelhouse.members import Member, members

#: Local versions of this project's releases and of our own builds: cu12torch2.8cxx11abitrue.
_LABEL = re.compile(r"cu(\d{2})\d*torch(\d+\.\d+)cxx11abi(true|false)\b")
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")
_MANYLINUX = re.compile(r"manylinux_(\d+_\d+)_")
#: C++ names that only torch's libraries have.
_TORCH = re.compile(rb"_Z(?:T[VI])?NK?(?:3c10|2at|5torch)")
_TORCH_LIBRARIES = re.compile(r"(?:.*/)?lib(?:c10|c10_cuda|torch_cpu|torch_cuda|torch_python)\.so")


@dataclass(frozen=True)
class Needs:
    """What a wheel has to fit."""

    version: str  # of flash-attn, without a local part
    python: str  # "3.12"
    arch: str  # "x86_64"
    glibc: str  # highest that may be asked for
    gpus: tuple[str, ...]  # every container needs code for each: "sm_86"
    torch: str  # "2.10.0"
    cuda: str  # release that torch was built with, "12.8"
    torch_place: Path | None = None  # torch's wheel, or the folder with its libraries


def name_of(filename: str) -> tuple[str, Version, frozenset[Tag]]:
    """Project, version and tags that a wheel's file name states.

    Raises UsageError where it is not the name of a flash-attn wheel.
    """
    try:
        project, version, _, tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise UsageError(f"{filename}: not the name of a wheel ({error})") from None
    if project != "flash-attn":
        raise UsageError(
            f"{filename}: holds {project}, flash-attn is needed",
            mend="name a wheel whose file name starts with flash_attn-",
        )
    return project, version, tags


def misfits(wheel: Path, filename: str, needs: Needs) -> tuple[str, ...]:
    """Everything that keeps a wheel called `filename` from working, a sentence each.

    Raises UsageError where it is no flash-attn wheel, IntegrityError where it is damaged.
    """
    _, version, tags = name_of(filename)
    _check_record(wheel, filename, version)
    return (
        *_named(version, tags, needs),
        *_linked(wheel, needs),
        *_covered(wheel, needs.gpus),
        *_resolved(wheel, needs),
    )


def glibc_floor(wheel: Path) -> str:
    """The highest glibc that a wheel's binaries ask for; empty where they ask for none."""
    found = elf.floors(elf.scan(wheel).files)
    return next((floor.version for floor in found if floor.family == "GLIBC"), "")


def _check_record(wheel: Path, filename: str, version: Version) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            record.check(archive, filename)
            folder = record.dist_info(archive, filename)
            head = archive.read(f"{folder}/METADATA").decode("utf-8", "replace")
    except (zipfile.BadZipFile, KeyError) as error:
        raise IntegrityError(f"{filename}: not a sound wheel ({error})") from None
    match = re.search(r"^Version: (\S+)$", head.partition("\n\n")[0], re.MULTILINE)
    stated = match[1] if match else "none"
    if canonicalize_version(stated) != canonicalize_version(version):
        raise IntegrityError(
            f"{filename}: its METADATA states version {stated}",
            why="the file was renamed",
            mend="give it the name that it was built with",
        )


def _named(version: Version, tags: Iterable[Tag], needs: Needs) -> Iterator[str]:
    """What name and tags contradict."""
    if version.public != needs.version:
        yield f"it is flash-attn {version.public}, the stack goes with {needs.version}"
    interpreter = f"cp{needs.python.replace('.', '')}"
    built = sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags})
    if f"{interpreter}-{interpreter}" not in built:
        yield f"it is built for {', '.join(built)}, the target has Python {needs.python}"
    platforms = sorted({tag.platform for tag in tags})
    if not any(platform.endswith(f"_{needs.arch}") for platform in platforms):
        yield f"it is built for {', '.join(platforms)}, the target is {needs.arch}"
    floors = [match[1].replace("_", ".") for text in platforms if (match := _MANYLINUX.match(text))]
    if floors and min(map(Version, floors)) > Version(needs.glibc):
        yield f"its tag asks for glibc {min(floors, key=Version)}, the target has {needs.glibc}"
    yield from _labelled(version.local or "", needs)


def _labelled(local: str, needs: Needs) -> Iterator[str]:
    """What the local version says that it was built for; not every wheel has one."""
    label = _LABEL.match(local)
    if label is None:
        return
    torch, cuda = minor(needs.torch), needs.cuda.partition(".")[0]
    if label[2] != torch:
        yield f"its name says torch {label[2]}, the stack has {torch}"
    if label[1] != cuda:
        yield f"its name says CUDA {label[1]}, torch is built with {needs.cuda}"
    if label[3] != "true":
        yield "its name says the old C++ ABI, torch has the new one (cxx11abi)"


def _linked(wheel: Path, needs: Needs) -> Iterator[str]:
    """What the loader will ask for: torch, CUDA's runtime, and symbol versions of glibc."""
    files = elf.scan(wheel).files
    needed = {name for file in files for name in file.needed}
    for machine in sorted({file.machine for file in files} - {needs.arch}):
        yield f"it holds code for {machine}, the target is {needs.arch}"
    if not any(name.startswith("libtorch") for name in needed):
        yield "it holds no library that is linked to torch"
    majors = {match[1] for name in needed if (match := _RUNTIME.fullmatch(name))}
    for major in sorted(majors - {needs.cuda.partition(".")[0]}):
        yield f"it is linked to libcudart.so.{major}, torch is built with CUDA {needs.cuda}"
    for floor in elf.floors(files):
        if floor.family == "GLIBC" and Version(floor.version) > Version(needs.glibc):
            yield (
                f"{', '.join(floor.paths)} needs the symbol version GLIBC_{floor.version}, "
                f"the target has glibc {needs.glibc}"
            )


def _covered(wheel: Path, gpus: tuple[str, ...]) -> Iterator[str]:
    inventory = kernels.scan(wheel)
    images = {
        str(image)
        for file in inventory.files
        for group in file.containers
        for image in group.images
    }
    held = ", ".join(sorted(images))
    rows = coverage(inventory, gpus).rows
    for gpu in gpus:
        mine = [row for row in rows if row.gpu == gpu]
        if not mine:
            yield f"it holds no GPU code, {gpu} needs some"
        for row in mine:
            if row.uncovered:
                yield (
                    f"{row.path} has no code for {gpu} in {row.uncovered} of {row.total} units "
                    f"(it holds {held})"
                )


def _resolved(wheel: Path, needs: Needs) -> Iterator[str]:
    """Names that are expected of torch, and that this torch does not have."""
    if needs.torch_place is None:
        return
    offered: set[bytes] = set()
    for member in _binaries(needs.torch_place):
        if _TORCH_LIBRARIES.fullmatch(member.path):
            offered |= {name for name, defined, _ in _symbols(member) if defined}
    for member in _binaries(wheel):
        asked = {
            name
            for name, defined, strong in _symbols(member)
            if strong and not defined and _TORCH.match(name)
        }
        missing = sorted(asked - offered)
        if missing:
            first = missing[0].decode("ascii", "backslashreplace")
            yield (
                f"{member.path} asks for {len(missing)} symbols that torch {needs.torch} lacks, "
                f"{first} for one: it was built for another torch"
            )


def _binaries(place: Path) -> Iterator[Member]:
    return (member for member in members(place) if not member.target)


def _symbols(member: Member) -> list[tuple[bytes, bool, bool]]:
    with member.content() as data:
        return list(symbols(data))


def minor(version: str) -> str:
    """Major and minor of a release: "2.10.0" → "2.10"."""
    return ".".join(version.split(".")[:2])
