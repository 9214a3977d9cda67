"""A squarified treemap: rectangles whose areas are proportional to sizes, as square as may be.

Algorithm: Bruls, Huizing, van Wijk, "Squarified Treemaps" (2000).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A rectangle in the picture's own units; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """Width times height."""
        return self.width * self.height


def squarify(sizes: Sequence[int], box: Box) -> list[Box]:
    """One box for each size, in the same order; together they fill `box` exactly.

    Sizes are positive. Largest first gives the squarest boxes.
    """
    if not sizes:
        return []
    scale = box.area / sum(sizes)
    areas = [size * scale for size in sizes]
    placed: list[Box] = []
    while len(placed) < len(areas):
        rest = areas[len(placed) :]
        side = min(box.width, box.height)
        count = 1
        while count < len(rest) and _worst(rest[: count + 1], side) <= _worst(rest[:count], side):
            count += 1
        row, box = _row(rest[:count], box, last=count == len(rest))
        placed += row
    return placed


def _worst(row: Sequence[float], side: float) -> float:
    """The worst ratio of long to short side where a row of areas lies along `side`."""
    thickness = sum(row) / side
    return max(max(area / thickness**2, thickness**2 / area) for area in row)


def _row(areas: Sequence[float], box: Box, *, last: bool) -> tuple[list[Box], Box]:
    """The boxes of one row along the shorter side, and what is left of the box."""
    across = box.width < box.height
    if last:  # all that is left, so that rounding leaves no gap
        thickness = box.height if across else box.width
    else:
        thickness = sum(areas) / min(box.width, box.height)
    row, offset = [], 0.0
    for area in areas:
        length = area / thickness
        if across:
            row.append(Box(box.x + offset, box.y, length, thickness))
        else:
            row.append(Box(box.x, box.y + offset, thickness, length))
        offset += length
    if across:
        return row, Box(box.x, box.y + thickness, box.width, box.height - thickness)
    return row, Box(box.x + thickness, box.y, box.width - thickness, box.height)
