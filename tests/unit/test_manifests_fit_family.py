"""Which sizes fit is answered from a table that says what the published files say."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from manifests.fit import Shape, family
from manifests.fit.tables import tables

CONFIGS = Path(__file__).resolve().parents[1] / "data/configs"
GIB = 1 << 30


def published(repository):
    return json.loads((CONFIGS / f"{repository.rpartition('/')[2]}.json").read_text())


@pytest.mark.parametrize("size", family.sizes(), ids=lambda size: size.repository)
def test_a_size_is_what_its_published_config_says(size):
    ours, theirs = (
        Shape.from_config(config, 1) for config in (size.config, published(size.repository))
    )
    assert ours is not None
    assert ours == theirs


def test_every_published_size_is_there():
    files = {path.stem for path in CONFIGS.glob("Qwen3.5-*.json")}
    plain = {name for name in files if not name.endswith(("-FP8", "-Int4"))}
    assert {size.repository.removeprefix("Qwen/") for size in family.sizes()} == plain


def names(found):
    return [checkpoint.repository.removeprefix("Qwen/") for checkpoint in found]


# The figures behind these are checked by hand in test_manifests_fit_answer.py.
def test_what_fits_is_named_the_largest_first():
    assert names(family.fitting(24 * GIB, 1, ())) == [
        "Qwen3.5-9B",
        "Qwen3.5-4B",
        "Qwen3.5-2B",
        "Qwen3.5-0.8B",
    ]
    on_80 = names(family.fitting(80 * GIB, 1, ()))
    assert on_80[0].startswith("Qwen3.5-35B-A3B")
    assert {"Qwen3.5-27B", "Qwen3.5-27B-FP8"} <= set(on_80)
    assert "Qwen3.5-122B-A10B" not in on_80
    assert "Qwen3.5-122B-A10B-FP8" in names(family.fitting(80 * GIB, 2, ()))


def test_more_memory_never_fits_less():
    found = [set(names(family.fitting(size * GIB, 1, ()))) for size in (4, 8, 16, 24, 48, 80, 141)]
    assert all(less <= more for less, more in pairwise(found))
    everything = {
        checkpoint.repository.removeprefix("Qwen/") for checkpoint in tables().checkpoints
    }
    assert set(names(family.fitting(192 * GIB, 8, ()))) == everything


def test_the_advice_in_words():
    assert family.advice(0, 1, ()) == ()
    assert family.advice(1 * GIB, 1, ()) == ()
    (line,) = family.advice(24 * GIB, 1, ())
    assert line.startswith("fits 25.77 GB: Qwen3.5-9B (19.30 GB), Qwen3.5-4B (9.32 GB)")
    plain, quantised = family.advice(80 * GIB, 2, ())
    assert plain.startswith("fits 2 x 85.90 GB: Qwen3.5-35B-A3B (71.90 GB)")
    assert quantised.startswith("fits 2 x 85.90 GB as FP8 or Int4: Qwen3.5-122B-A10B-FP8")
