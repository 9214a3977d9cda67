"""Kernels that are made on the target: which compiler a file asks for.

Such a file has nothing to audit but the compiler, which has to know the GPU; it is named, so that
nobody takes the missing machine code for a gap.
"""

from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.sections import IDENT, SHF_EXECINSTR, Buffer, sections

#: A function of each compiler's library, which a program imports or looks up by name.
_FUNCTIONS = {
    "nvjitlink": b"nvJitLinkCreate",  # links LTO-IR
    "nvrtc": b"nvrtcCompileProgram",
}
#: How Python code hands kernels to a compiler; plain text is found ten times faster than patterns.
_CALLS = {
    "cutlass-dsl": (b"@cute.kernel",),
    "numba": (b"@cuda.jit",),
    "nvcc": (b"gen_jit_spec(", b"load_inline("),  # FlashInfer's and torch's run-time builds
    "nvrtc": (b".RawKernel(", b".RawModule("),  # CuPy
    "tilelang": (b"@tilelang.jit",),
    "triton": (b"@triton.jit",),
}


def of_source(text: Buffer) -> tuple[str, ...]:
    """The makers that a Python file's kernels need, sorted."""
    # The 0: a map's search begins at its position, which is its end after writing.
    return tuple(
        maker for maker, calls in _CALLS.items() if any(text.find(call, 0) >= 0 for call in calls)
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
