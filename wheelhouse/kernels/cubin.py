"""Bare cubins: which GPU the machine code of an ELF file with NVIDIA's e_machine is for."""

import re

from manifests.kernels.images import SASS, SPECIFIC, Image
from wheelhouse.kernels.sections import Buffer, Header, sections

#: From this EI_ABIVERSION on (CUDA 13) the capability stands in the second byte of e_flags, and
#: the mark of arch-specific code in another bit; observed, not published.
_NEW_ABI = 8
_OLD_SPECIFIC, _NEW_SPECIFIC = 0x800, 0x8
#: Variants begin with sm_90a. Hand-written cubins of cuBLAS 10 for sm_50 to sm_61 have the bit too.
_FIRST_WITH_VARIANTS = 90
#: ptxas 13.0 sets no bit at all, but leaves its command line in a note.
_NOTE = ".note.nv.tkinfo"
_TARGET = re.compile(rb"-arch(?:itecture)?[ =]sm_(\d{1,4})([af]?)")


def image(view: Buffer, found: Header, start: int = 0, end: int | None = None) -> Image:
    """The image that the cubin at `start` is.

    Raises Malformed where its section table is cut off.
    """
    new = found.abi >= _NEW_ABI
    number = found.flags >> 8 & 0xFF if new else found.flags & 0xFF
    marked = found.flags & (_NEW_SPECIFIC if new else _OLD_SPECIFIC)
    variant = SPECIFIC if marked and number >= _FIRST_WITH_VARIANTS else ""
    for section in sections(view, start, end):
        if section.name == _NOTE:
            for match in _TARGET.finditer(view[section.start : section.end]):
                if int(match[1]) == number and match[2]:
                    variant = match[2].decode()
    return Image(SASS, str(number), variant)
