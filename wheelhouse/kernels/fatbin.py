"""NVIDIA's fat binaries: the headers of containers and of the images in them.

The format is not published. It was read from what nvcc 13.0.88 writes and from libraries of CUDA
8 to 13, and is compared with cuobjdump in tests/e2e/test_kernels.py. All little-endian:

    container  u32 magic 0xBA55ED50, u16 version 1, u16 header size 16, u64 bytes that follow
    image      u16 kind, u16 version, u32 header size, u64 bytes after the header,
               u32 compressed size, u32 offset of options, u16 minor, u16 major (of the PTX ISA),
               u32 capability, u32 and u32 place of a name, u64 flags, u64,
               u64 plain size (0: not compressed)

Headers of images have 64, 72, 80 or 112 bytes: newer compilers append fields. Payloads are mostly
compressed, and never looked at.
"""

import re
import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from manifests.kernels.images import FAMILY, LTO, PTX, SASS, SPECIFIC, Image
from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.sections import Buffer

MAGIC = struct.pack("<I", 0xBA55ED50)
_MAGIC = re.compile(re.escape(MAGIC))  # searches half as fast again as `find`
_CONTAINER = struct.Struct("<4sHHQ")
_IMAGE = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS = {1: PTX, 2: SASS, 8: LTO}
_SPECIFIC_FLAG, _FAMILY_FLAG = 0x100000, 0x200000
_CHUNK = 1 << 20  # bytes compared with zeros at a time

#: What nvcc makes of a file without kernels has 584 to 1,904 bytes uncompressed, and the smallest
#: cubin with a kernel 2,856, in 40 wheels of CUDA 10 to 13.
_EMPTY = 2560


class Container(NamedTuple):
    """What one container holds."""

    images: tuple[Image, ...]  # sorted, each once
    empty: bool  # whether no kernel is in it, as for a file of host code that nvcc compiled


def containers(view: Buffer, start: int, end: int) -> Iterator[Container]:
    """The containers of a section that holds nothing else but zeros between them.

    Raises Malformed at the first byte that is neither.
    """
    position = start
    while position < end:
        if view[position : position + 4] != MAGIC:
            following = view.find(MAGIC, position, end)
            _check_zeros(view, position, end if following < 0 else following)
            if following < 0:
                return
            position = following
        found, position = container(view, position, end)
        yield found


def embedded(view: Buffer, start: int, end: int) -> Iterator[tuple[int, int, Container]]:
    """The containers among other data, with where they start and end.

    What only looks like one is passed over. Raises Malformed where that is forged, so that looking
    at each would take as long as the square of their number.
    """
    stop, wasted = start, 0
    while match := _MAGIC.search(view, stop, end):
        try:
            found, stop = container(view, match.start(), end)
            yield match.start(), stop, found
        except Malformed as error:
            wasted += error.offset - match.start()
            if wasted > 4 * (end - start) + _CHUNK:
                raise Malformed(match.start(), "containers in containers without end") from None
            stop = match.end()


def container(view: Buffer, start: int, end: int) -> tuple[Container, int]:
    """The container at `start`, and the offset after it.

    Raises Malformed where it is cut off or its headers don't add up.
    """
    if start + _CONTAINER.size > end:
        raise Malformed(start, "a container's header is cut off")
    magic, version, size, length = _CONTAINER.unpack_from(view, start)
    if magic != MAGIC or version != 1 or size != _CONTAINER.size:
        raise Malformed(start, "not the header of a container of version 1")
    position = start + size
    stop = position + length
    if stop > end:
        raise Malformed(start, f"a container of {length} bytes is cut off after {end - position}")
    sizes: dict[Image, int] = {}
    while position < stop:
        image, plain, position = _image(view, position, stop)
        sizes[image] = max(plain, sizes.get(image, 0))
    code = [plain for image, plain in sizes.items() if image.kind == SASS]
    return Container(tuple(sorted(sizes)), bool(code) and max(code) < _EMPTY), stop


def _image(view: Buffer, start: int, stop: int) -> tuple[Image, int, int]:
    """An image, its uncompressed size in bytes, and the offset after it."""
    if start + _IMAGE.size > stop:
        raise Malformed(start, "an image's header is cut off")
    kind, _, size, length, _, _, minor, major, arch, _, _, flags, _, plain = _IMAGE.unpack_from(
        view, start
    )
    if size < _IMAGE.size or start + size + length > stop:
        raise Malformed(start, f"an image of {size} + {length} bytes does not fit its container")
    return _named(kind, arch, flags, major, minor), plain or length, start + size + length


@cache
def _named(kind: int, arch: int, flags: int, major: int, minor: int) -> Image:
    name = _KINDS.get(kind, f"kind{kind}")
    variant = FAMILY if flags & _FAMILY_FLAG else SPECIFIC if flags & _SPECIFIC_FLAG else ""
    return Image(name, str(arch), variant, f"{major}.{minor}" if name == PTX else "")


def _check_zeros(view: Buffer, start: int, end: int) -> None:
    for position in range(start, end, _CHUNK):
        piece = view[position : min(position + _CHUNK, end)]
        if piece.strip(b"\0"):
            offset = position + len(piece) - len(piece.lstrip(b"\0"))
            raise Malformed(offset, "neither a container nor zeros between two")
