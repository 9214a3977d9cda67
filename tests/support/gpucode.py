"""Fat binaries, cubins and libraries made to order, as nvcc and ptxas lay them out."""

import struct
from collections.abc import Mapping, Sequence

PTX, SASS, LTO = 1, 2, 8
SPECIFIC, FAMILY = 0x100000, 0x200000
EM_X86_64, EM_CUDA = 62, 190
#: sm_86 with PTX 8.8, by the names that `container` takes.
PLAIN = ("sm_86", "compute_86")


def image(
    name: str, *, header: int = 64, payload: bytes = b"p" * 24, isa: str = "8.8", plain: int = 4096
) -> bytes:
    """An image: "sm_90a", "sm_100f", "compute_80", "lto_80"; `plain`: 0 says uncompressed."""
    prefix, _, number = name.partition("_")
    variant = {"a": SPECIFIC, "f": FAMILY}.get(number[-1], 0)
    kind = {"sm": SASS, "compute": PTX, "lto": LTO}[prefix]
    major, minor = (int(part) for part in isa.split("."))
    fixed = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind, 0x0101, header, len(payload), 0, 0, minor, major, int(number.rstrip("af")),
        0, 0, 0x11 | variant, 0, plain,
    )  # fmt: skip
    return fixed + bytes(header - len(fixed)) + payload


def container(*names: str, isa: str = "8.8", header: int = 64, plain: int = 4096) -> bytes:
    """A container of images."""
    return packed(*(image(name, isa=isa, header=header, plain=plain) for name in names))


def packed(*images: bytes) -> bytes:
    """A container of what `image` made."""
    body = b"".join(images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(
    sections: Mapping[str, bytes | tuple[int, bytes]],
    *,
    machine: int = EM_X86_64,
    flags: int = 0,
    abi: int = 0,
) -> bytes:
    """An ELF file: name → bytes of an allocated section, or (sh_flags, bytes)."""
    names, contents = b"\0", bytearray(64)
    headers = [bytes(64)]
    for name, value in {**sections, ".shstrtab": (0, b"")}.items():
        attributes, data = value if isinstance(value, tuple) else (2, value)
        at = len(names)
        names += name.encode() + b"\0"
        data = names if name == ".shstrtab" else data
        contents += bytes(-len(contents) % 8)
        headers.append(
            struct.pack("<IIQQQQIIQQ", at, 1, attributes, 0, len(contents), len(data), 0, 0, 8, 0)
        )
        contents += data
    contents += bytes(-len(contents) % 8)
    ident = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + bytes(7)
    contents[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        3, machine, 1, 0, 0, len(contents), flags, 64, 0, 0, 64, len(headers), len(headers) - 1,
    )  # fmt: skip
    return bytes(contents) + b"".join(headers)


def cubin(flags: int, abi: int, note: bytes = b"") -> bytes:
    """A bare cubin."""
    extra = {".note.nv.tkinfo": note} if note else {}
    return elf({".text.kernel": b"k" * 40, **extra}, machine=EM_CUDA, flags=flags, abi=abi)


def library(*containers: Sequence[str], isa: str = "8.8") -> bytes:
    """A library whose host code registers containers."""
    return elf({".nv_fatbin": b"".join(container(*names, isa=isa) for names in containers)})
