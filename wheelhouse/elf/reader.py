"""Read of an ELF file what decides whether it loads: libraries, search path, symbol versions.

pyelftools takes 3 to 5 ms for a file on average, this 0.1 ms (378 files of an environment), and
finds symbol versions only through section headers, which the loader ignores; tests compare the two.

Formats: see wheelhouse.elf.image, and LSB Core 5.0, "Symbol Versioning"
(https://refspecs.linuxfoundation.org).
"""

import struct
from collections.abc import Callable, Iterator
from typing import TypeVar

from manifests.errors import IntegrityError
from wheelhouse.elf import image
from wheelhouse.elf.image import DAMAGE, Bytes, Image
from wheelhouse.elf.inventory import PROGRAM, SHARED, STATIC, ElfFile, VersionNeed

T = TypeVar("T")
_ET_EXEC, _ET_DYN = 2, 3
_VER_FLG_BASE, _VER_FLG_WEAK = 1, 2
_NT_GNU_BUILD_ID = 3
#: Machines on which Python runs (<elf.h>); anything else (CUDA 190, AMDGPU 224, BPF 247) is code
#: for a device, carried as data.
_MACHINES = {
    3: "i386",
    21: "ppc64le",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
#: More entries than any linker writes; a chain that is longer was forged.
_MOST = 1 << 16


def parse(data: Bytes, path: str) -> ElfFile | None:
    """What a file asks for; None where it is no program or library for a host's processor.

    Files of other word sizes or byte orders are told by their machine alone. Raises IntegrityError
    naming `path` where it is not an ELF file or contradicts itself.
    """
    try:
        machine, kind = _identity(data)
        if machine is None or kind not in (_ET_EXEC, _ET_DYN):
            return None
        if (data[4], data[5]) != (2, 1):  # ELFCLASS64, ELFDATA2LSB
            return ElfFile(path, machine)
        return _describe(Image(data), path, machine, kind)
    except DAMAGE as error:
        raise IntegrityError(
            f"{path}: not a sound ELF file ({error})",
            mend="fetch the wheel or package again, and compare its digest",
        ) from None


def _identity(data: Bytes) -> tuple[str | None, int]:
    if data[:4] != b"\x7fELF":
        raise ValueError("it does not start as one")
    kind, number = struct.unpack_from("<HH" if data[5] != 2 else ">HH", data, 16)
    return _MACHINES.get(number), kind


def _describe(elf: Image, path: str, machine: str, kind: int) -> ElfFile:
    if not elf.tags:
        return ElfFile(path, machine, STATIC, build_id=_build_id(elf))
    interpreter = "".join(image.text(part.rstrip(b"\0")) for part in elf.contents(image.PT_INTERP))
    # A DT_RPATH beside a DT_RUNPATH is ignored (ld.so(8)).
    search = elf.texts(image.DT_RUNPATH) or elf.texts(image.DT_RPATH)
    return ElfFile(
        path,
        machine,
        SHARED if kind == _ET_DYN and not interpreter else PROGRAM,
        soname="".join(elf.texts(image.DT_SONAME)[:1]),
        needed=elf.texts(image.DT_NEEDED),
        runpath=tuple(search[0].split(":")) if search else (),
        rpath=bool(search) and image.DT_RUNPATH not in elf.tags,
        versions=tuple(_needs(elf)),
        defines=tuple(_definitions(elf)),
        interpreter=interpreter,
        build_id=_build_id(elf),
    )


def _build_id(elf: Image) -> str:
    for notes in elf.contents(image.PT_NOTE):
        at = 0
        while at + 12 <= min(len(notes), _MOST):
            name, length, kind = struct.unpack_from("<III", notes, at)
            start = at + 12 + -(-name // 4) * 4
            if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
                return notes[start : start + length].hex()
            at = start + -(-length // 4) * 4
    return ""


def _needs(elf: Image) -> Iterator[VersionNeed]:
    """Symbol versions by library (Elf64_Verneed, Elf64_Vernaux)."""

    def library(at: int) -> tuple[VersionNeed, int]:
        elf.spend(16)
        _, count, name, first, following = struct.unpack_from("<HHIII", elf.data, at)
        found = tuple(filter(None, _chain(at + first, count, version)))
        return VersionNeed(elf.string(name), found), following

    def version(at: int) -> tuple[str, int]:
        elf.spend(16)
        _, flags, _, name, following = struct.unpack_from("<IHHII", elf.data, at)
        return "" if flags & _VER_FLG_WEAK else elf.string(name), following

    return _table(elf, image.DT_VERNEED, image.DT_VERNEEDNUM, library)


def _definitions(elf: Image) -> Iterator[str]:
    """Symbol versions on offer (Elf64_Verdef); the file's own name is not one."""

    def definition(at: int) -> tuple[str, int]:
        _, flags, _, _, _, first, following = struct.unpack_from("<HHHHIII", elf.data, at)
        (name,) = struct.unpack_from("<I", elf.data, at + first)
        return "" if flags & _VER_FLG_BASE else elf.string(name), following

    return filter(None, _table(elf, image.DT_VERDEF, image.DT_VERDEFNUM, definition))


def _table(
    elf: Image, start: int, number: int, read: Callable[[int], tuple[T, int]]
) -> Iterator[T]:
    if start not in elf.tags:
        return iter(())
    return _chain(elf.at(start), elf.tags[number][0], read)


def _chain(at: int, count: int, read: Callable[[int], tuple[T, int]]) -> Iterator[T]:
    """Entries, each of which says how many bytes further the next one is."""
    if count > _MOST:
        raise ValueError(f"{count} symbol versions")
    for _ in range(count):
        item, following = read(at)
        yield item
        if not following:
            return
        at += following
