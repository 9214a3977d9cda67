"""Ninja's lines as progress."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import BundleError, UsageError
from wheelhouse.flashattn.output import KNOWN, Units, failure


def fed(total, lines):
    told = []
    units = Units(total, told.append)
    for line in lines:
        units.take(line)
    return units, told


def test_a_fresh_build_counts_from_nothing():
    units, told = fed(3, ["building", "<1/3> nvcc x", "x.cu: warning", "<2/3> nvcc y", "<3/3> c++"])
    assert (units.compiled, told) == (3, [1, 1, 1])


def test_a_continued_build_starts_with_what_is_there():
    units, told = fed(73, ["<1/70> nvcc", "<2/70> nvcc"])
    assert (units.compiled, told) == (2, [4, 1])


def test_lines_that_only_look_alike_are_not_counted():
    assert fed(3, ["[1/3] cicc", "see <2/3> there", "<a/b>"])[1] == []


@given(st.integers(1, 99).flatmap(lambda total: st.tuples(st.just(total), st.integers(0, total))))
def test_all_that_is_told_adds_up_to_the_total(numbers):
    total, left = numbers
    units, told = fed(total, [f"<{i}/{left}> nvcc" for i in range(1, left + 1)])
    units.finish()
    assert sum(told) == total
    assert min(told) >= 0
    assert units.compiled == left


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.what)
def test_every_known_failure_has_a_mend(known):
    assert known.mend
    assert known.why


def test_the_end_of_a_log_without_any_error_is_quoted():
    error = failure("one\ntwo\n", 1, Path("build.log"))
    assert error.findings == ("one", "two", "the whole log: build.log")
    assert isinstance(failure("", -15, Path("build.log")), UsageError)
    assert "signal 15" in failure("", -15, Path("build.log")).what


@given(st.text(), st.integers(-64, 255))
def test_whatever_a_build_says_an_error_comes_of_it(text, status):
    error = failure(text, status, Path("build.log"))
    assert isinstance(error, BundleError)
    assert all(len(finding) <= 300 for finding in error.findings)
