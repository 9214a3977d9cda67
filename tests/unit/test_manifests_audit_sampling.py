"""A sample proves what it says it proves, and nobody can know it beforehand."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.audit import sampling
from manifests.audit.sampling import Sample, Sampled, missed
from manifests.errors import UsageError


@given(st.integers(1, 8), st.data())
def test_the_probability_is_the_share_of_all_samples_that_miss_the_wrong_files(population, data):
    drawn = data.draw(st.integers(0, population))
    wrong = data.draw(st.integers(1, population))
    every = [set(chosen) for chosen in combinations(range(population), drawn)]
    misses = sum(chosen.isdisjoint(range(wrong)) for chosen in every)
    exact, told = Fraction(misses, len(every)), Fraction(missed(population, drawn, wrong))
    assert exact <= told <= exact * Fraction(1001, 1000)


@pytest.mark.parametrize(
    ("population", "drawn", "wrong", "told"),
    [
        (100, 100, 1, "0"),
        (100, 0, 1, "1"),
        (40_000, 2_000, 1, "0.95"),
        (40_000, 2_000, 10, "0.5988"),  # 0.95 ** 10 = 0.59874 with replacement
        (40_000, 2_000, 400, "1.106e-9"),
        (3, 2, 1, "0.3334"),  # rounded up: never a smaller risk than there is
    ],
)
def test_the_probability_in_figures(population, drawn, wrong, told):
    assert missed(population, drawn, wrong) == told


def test_what_a_sample_proves_is_said_for_1_for_10_and_for_a_hundredth():
    assert [n for n, _ in Sampled("s", 5, 3000, 1, 2).proofs()] == [1, 10, 30]
    assert [n for n, _ in Sampled("s", 5, 700, 1, 2).proofs()] == [1, 7, 10]
    assert [n for n, _ in Sampled("s", 1, 3, 1, 2).proofs()] == [1]
    assert Sampled("s", 0, 0, 0, 0).proofs() == ()
    told = "\n".join(Sampled("abc", 5, 3000, 1, 2).lines())
    assert "5 of 3000 files" in told
    assert "seed: abc" in told
    assert "each with the same chance" in told
    assert "were 10 of them wrong, the sample would have missed that with probability 0.98" in told


NAMES = [f"lib/{number}" for number in range(300)]


@given(st.text(max_size=20), st.integers(0, 400))
def test_a_seed_gives_the_same_sample_whatever_the_order(seed, count):
    drawn = Sample(str(count), seed).draw(NAMES)
    assert drawn == Sample(str(count), seed).draw(NAMES[::-1])
    assert len(drawn) == min(count, len(NAMES))
    assert drawn <= set(NAMES)


def test_another_seed_gives_another_sample_and_a_larger_one_holds_the_smaller():
    first, second = (sampling.parse("30") for _ in range(2))
    assert first.seed != second.seed
    assert len(first.seed) == 32  # 128 bits
    assert first.draw(NAMES) != second.draw(NAMES)
    assert Sample("30", "s").draw(NAMES) < Sample("60", "s").draw(NAMES)


def test_each_file_has_the_same_chance():
    hits = dict.fromkeys(NAMES, 0)
    for seed in range(400):
        for name in Sample("10%", str(seed)).draw(NAMES):
            hits[name] += 1
    # 40 expected, standard deviation 6: all 300 within five of them
    assert sum(hits.values()) == 400 * 30
    assert min(hits.values()) > 10
    assert max(hits.values()) < 70


@pytest.mark.parametrize(
    ("wish", "count"),
    [("1", 1), ("300", 300), ("5%", 15), ("0.1%", 1), ("0.5%", 2), ("12.25%", 37), ("100%", 300)],
)
def test_a_share_is_rounded_up(wish, count):
    assert sampling.parse(wish, "s").count(300) == count


@pytest.mark.parametrize(
    "wish", ["", "0", "0%", "0.0%", "-1", "5 %", "101%", "1e3", "%", "5%%", "a"]
)
def test_no_sample_at_all_is_refused(wish):
    with pytest.raises(UsageError, match="--sample"):
        sampling.parse(wish)


def test_a_seed_is_a_line():
    with pytest.raises(UsageError, match="--seed"):
        sampling.parse("5", "a\nb")
