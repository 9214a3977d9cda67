"""Archives of object files, `libNAME.a`.

Format: ar(5): a magic line, then for each member a header of 60 bytes in text and its bytes, padded
to an even length. Thin archives hold no objects, only their names.
"""

from collections.abc import Iterator

from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.sections import Buffer

ARCHIVE = b"!<arch>\n"
_HEADER = 60  # bytes
_SIZE = slice(48, 58)  # decimal digits
_END = b"`\n"


def objects(view: Buffer, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the members of the archive at `start` begin and end, lists of names among them.

    Raises Malformed where the archive is cut off.
    """
    position = start + len(ARCHIVE)
    while position < end:
        head = view[position : position + _HEADER]
        digits = head[_SIZE].strip()
        if not head.endswith(_END) or not digits.isdigit():
            raise Malformed(position, "not the header of a member of an archive")
        first = position + _HEADER
        last = first + int(digits)
        if last > end:
            raise Malformed(position, f"a member of {int(digits)} bytes is cut off")
        yield first, last
        position = last + last % 2
