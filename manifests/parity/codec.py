"""The erasure code: Reed-Solomon with a Cauchy matrix over GF(2^8), by Intel's ISA-L in pyeclib.

A Cauchy matrix is invertible whichever rows are left (ISA-L's documentation of
gf_gen_cauchy1_matrix), which its Vandermonde matrix is not for this many.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from manifests.errors import TargetError

_TYPE = "isa_l_rs_cauchy"
#: Bytes that liberasurecode puts before each block (erasurecode.h, struct fragment_header_s).
_FRAME = 80
#: Bytes of each block that are coded at a time: with all rows, what the caches of a CPU hold.
_SLICE = 64 << 10
#: Missing blocks up to which they are computed one by one.
_FEW = 2


class Codec:
    """Codes blocks of `block` bytes in columns of `data` and `parity` rows."""

    def __init__(self, data: int, parity: int, block: int) -> None:
        """Raises TargetError where pyeclib is not installed."""
        self._data = data
        self._starts = range(0, block, _SLICE)
        self._width = min(block, _SLICE)
        self._driver = _driver(data, parity)
        # The frames depend on the shape alone. A block in an archive has none, so they are taken
        # from a column of zeros.
        zeros: list[bytes] = self._driver.encode(bytes(data * self._width))
        self._frames = [fragment[:_FRAME] for fragment in zeros]

    def encode(self, rows: Sequence[bytes]) -> list[bytes]:
        """The blocks of parity of a column."""
        views = [memoryview(row) for row in rows]
        parts = [
            self._parity(b"".join(view[start : start + self._width] for view in views))
            for start in self._starts
        ]
        return [b"".join(slices) for slices in zip(*parts, strict=True)]

    def rebuild(self, known: Mapping[int, bytes], missing: Sequence[int]) -> list[bytes]:
        """The missing blocks of a column, in ascending order of their rows.

        As many blocks have to be `known`, by row, as rows hold data.
        """
        chosen = sorted(known)[: self._data]
        parts = []
        for start in self._starts:
            framed = [self._frames[row] + known[row][start : start + self._width] for row in chosen]
            parts.append(self._missing(framed, missing))
        return [b"".join(slices) for slices in zip(*parts, strict=True)]

    def _parity(self, column: bytes) -> list[bytes]:
        fragments: list[bytes] = self._driver.encode(column)
        return [fragment[_FRAME:] for fragment in fragments[self._data :]]

    def _missing(self, framed: list[bytes], missing: Sequence[int]) -> list[bytes]:
        """One slice of the missing blocks.

        `reconstruct` inverts the matrix anew for each block, `decode` once for all data.
        """
        if len(missing) <= _FEW:
            fragments: list[bytes] = self._driver.reconstruct(framed, list(missing))
            return [fragment[_FRAME:] for fragment in fragments]
        column: bytes = self._driver.decode(framed)
        parity = self._parity(column) if missing[-1] >= self._data else []
        return [
            column[row * self._width : (row + 1) * self._width]
            if row < self._data
            else parity[row - self._data]
            for row in missing
        ]


def _driver(data: int, parity: int) -> Any:
    try:
        # Loads the runtime's own libz, which liberasurecode names and a bare host lacks.
        import zlib  # noqa: F401

        from pyeclib.ec_iface import ECDriver
    except ImportError as error:
        raise TargetError(
            "parity needs pyeclib, which is not installed here",
            why=str(error),
            mend="install it (pip install pyeclib), or restore with `bundle restore` elsewhere",
        ) from None
    return ECDriver(k=data, m=parity, ec_type=_TYPE)
