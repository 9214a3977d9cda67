import math

from hypothesis import given
from hypothesis import strategies as st

from bundler.plan.treemap import Box, squarify

SIZES = st.lists(st.integers(1, 10**12), min_size=1, max_size=30)
SIDES = st.floats(10, 5000)


@given(SIZES, SIDES, SIDES)
def test_areas_are_proportional_and_fill_the_box(sizes, width, height):
    boxes = squarify(sizes, Box(0, 0, width, height))
    assert len(boxes) == len(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert math.isclose(box.area, size / sum(sizes) * width * height, rel_tol=1e-4)


@given(SIZES, SIDES, SIDES)
def test_boxes_lie_inside_and_not_on_each_other(sizes, width, height):
    boxes = squarify(sorted(sizes, reverse=True), Box(3, 5, width, height))
    slack = 1e-6 * max(width, height)
    for number, box in enumerate(boxes):
        assert box.x >= 3 - slack and box.x + box.width <= 3 + width + slack
        assert box.y >= 5 - slack and box.y + box.height <= 5 + height + slack
        for other in boxes[number + 1 :]:
            wide = min(box.x + box.width, other.x + other.width) - max(box.x, other.x)
            high = min(box.y + box.height, other.y + other.height) - max(box.y, other.y)
            assert wide <= slack or high <= slack


def test_the_example_of_the_paper():
    """Bruls et al., figure 3: 6, 6, 4, 3, 2, 2, 1 in a box of 6 by 4."""
    boxes = squarify([6, 6, 4, 3, 2, 2, 1], Box(0, 0, 6, 4))
    corners = [(round(box.x, 2), round(box.y, 2)) for box in boxes]
    assert corners == [(0, 0), (0, 2), (3, 0), (4.71, 0), (3, 2.33), (4.2, 2.33), (5.4, 2.33)]


def test_equal_sizes_become_squares():
    for box in squarify([1] * 16, Box(0, 0, 400, 400)):
        assert box.width == box.height == 100


def test_nothing_is_laid_out_as_nothing():
    assert squarify([], Box(0, 0, 1, 1)) == []
