import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import linecheck

LINES = st.lists(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=9)
)


def test_digits():
    start = hashlib.sha256(b"gpu:2xnvidiaa10").hexdigest()[:3]
    assert start == "39e"
    assert linecheck.digits("gpu: 2 x NVIDIA A10") == "394"
    assert linecheck.digits(" GPU:2 x  nvidia a10\t") == "394"


@given(LINES.filter(len))
def test_a_sealed_text_is_right(lines):
    key, _, value = linecheck.seal(lines).partition(": ")
    assert key == linecheck.KEY
    assert linecheck.misread(lines, value) == []
    assert linecheck.misread(lines, value.replace(" ", "")) == []


def test_a_misread_line_is_named():
    lines = ["driver: 535.104.05", "memory: 257698 MiB", "os: ubuntu 22.04"]
    value = linecheck.seal(lines).partition(": ")[2]
    assert linecheck.misread([lines[0], "memory: 251698 MiB", lines[2]], value) == [1]
    assert linecheck.misread([lines[1], lines[0], lines[2]], value) == [0, 1]


def test_nearly_every_slip_of_one_digit_is_found():
    line = "memory: 257698 MiB"
    slips = [
        line[:place] + other + line[place + 1 :]
        for place, char in enumerate(line)
        if char.isdigit()
        for other in "0123456789"
        if other != char
    ]
    missed = [slip for slip in slips if linecheck.digits(slip) == linecheck.digits(line)]
    assert len(slips) == 54
    assert len(missed) <= 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "three digits are needed"),
        ("12", "three digits are needed"),
        ("12O", "three digits are needed"),
        ("\u0661\u0662\u0663", "three digits are needed"),
        ("123 456", "digits for 2 lines, above it are 1"),
    ],
)
def test_what_is_no_check_line(value, problem):
    with pytest.raises(ValueError, match=problem):
        linecheck.misread(["a"], value)
