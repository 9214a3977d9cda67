"""The order of versions is packaging's."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

from manifests.vulns_versions import compare, key, same

NUMBERS = st.integers(0, 12).map(str)
SEPARATORS = st.sampled_from(["", ".", "-", "_"])
WORDS = ["a", "b", "c", "rc", "alpha", "beta", "pre", "preview", "RC", "post", "rev", "r", "dev"]
SUFFIX = st.tuples(SEPARATORS, st.sampled_from(WORDS), SEPARATORS, NUMBERS | st.just(""))
LOCAL = st.lists(st.sampled_from(["1", "10", "cpu", "cu128", "0a"]), max_size=3).map(
    lambda parts: f"+{'.'.join(parts)}" if parts else ""
)


@st.composite
def versions(draw):
    """Texts that are versions, and some that are nearly ones."""
    epoch = draw(st.sampled_from(["", "", "", "1!", "v"]))
    release = ".".join(draw(st.lists(NUMBERS, min_size=1, max_size=4)))
    suffixes = "".join("".join(one) for one in draw(st.lists(SUFFIX, max_size=3)))
    return f"{epoch}{release}{suffixes}{draw(LOCAL)}"


def theirs(text):
    try:
        return Version(text)
    except InvalidVersion:
        return None


@settings(deadline=None)
@given(left=versions(), right=versions())
@example("1.0.dev0", "1.0a0")
@example("1.0.post0.dev1", "1.0")
@example("1.0-1", "1.0.post1")
@example("1.0+cpu", "1.0+1")
@example("1.0+a", "1.0+a.1")
@example("0.0", "0")
def test_the_same_order_as_packaging(left, right):
    one, other = theirs(left), theirs(right)
    assert (key(left) is None, key(right) is None) == (one is None, other is None)
    if one is not None and other is not None:
        mine, yours = key(left), key(right)
        assert (mine < yours, mine == yours) == (one < other, one == other)


@settings(deadline=None)
@given(st.text(max_size=30))
@example("\uff11.0")  # a digit, but none of ASCII
@example("1.0\n")
def test_any_text(text):
    assert (key(text) is None) == (theirs(text) is None)


def test_what_packaging_can_not_read_either():
    assert key("1" * 5000) is None


@pytest.mark.parametrize(
    ("version", "bound", "expected"),
    [
        ("2.5.1+cu124", "2.5.1", 0),  # the publisher of the advisory knows of no builds
        ("2.5.1+cu124", "2.5.1+cu126", -1),
        ("2.6.0+cpu", "2.6.0", 0),
        ("2.6.0rc1", "2.6.0", -1),
        ("1.0", "2004d", 1),  # not a version: before all
        ("0.9.2.dev1", "0.9.2", -1),
    ],
)
def test_bounds(version, bound, expected):
    assert compare(key(version), bound) == expected


def test_listed_versions():
    assert same("2.5.1+cu124", "2.5.1")
    assert same("1.0.0", "1.0")
    assert same("2004d", "2004d")
    assert not same("2004d", "2004e")
    assert not same("2.5.1", "2.5.1+cu124")
