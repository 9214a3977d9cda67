"""Kernels that are made on the target: which compiler a file asks for.

Such a file has nothing to audit but the compiler, which has to know the GPU; it is named, so that
nobody takes the missing machine code for a gap.
"""

import re

from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.sections import IDENT, SHF_EXECINSTR, Buffer, sections

#: A function of each compiler's library, which a program imports or looks up by name.
_FUNCTIONS = {
    "nvjitlink": b"nvJitLinkCreate",  # links LTO-IR
    "nvrtc": b"nvrtcCompileProgram",
}
#: How Python code hands kernels to a compiler.
_DECORATORS = {
    "cutlass-dsl": rb"@cute\.kernel",
    "numba": rb"@cuda\.jit",
    "nvcc": rb"\bgen_jit_spec\(|\bload_inline\(",  # FlashInfer's and torch's run-time builds
    "nvrtc": rb"\bcupy\.RawKernel\(|\bcp\.RawKernel\(|\bRawModule\(",
    "tilelang": rb"@tilelang\.jit",
    "triton": rb"@triton\.jit",
}
_PATTERN = re.compile(
    b"|".join(b"(?P<%b>%b)" % (name.replace("-", "_").encode(), pattern)
              for name, pattern in _DECORATORS.items())
)  # fmt: skip


def of_source(text: Buffer) -> frozenset[str]:
    """The makers that a Python file's kernels need."""
    return frozenset(
        match.lastgroup.replace("_", "-")
        for match in _PATTERN.finditer(text)
        if match.lastgroup is not None
    )


def of_binary(view: Buffer) -> tuple[str, ...]:
    """The makers whose functions a library names, sorted."""
    if view[: len(IDENT)] != IDENT:
        return ()
    try:
        table = sections(view)
    except Malformed:
        return ()
    # .dynstr of those that import, .rodata of those that look up by name.
    places = [
        section
        for section in table
        if section.name in (".dynstr", ".rodata") and not section.flags & SHF_EXECINSTR
    ]
    return tuple(
        maker
        for maker, name in _FUNCTIONS.items()
        if any(view.find(name, place.start, place.end) >= 0 for place in places)
    )
