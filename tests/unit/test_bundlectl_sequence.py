import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import sequence
from bundlectl.layout import Layout
from bundlectl.syncing import write_whole
from manifests.errors import IntegrityError, UsageError
from tests.support.simulator import Simulator

MANIFEST = Simulator().manifest()


def numbered(number, model="tiny"):
    served = dataclasses.replace(MANIFEST.model, name=model)
    return dataclasses.replace(MANIFEST, sequence=number, model=served)


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "prefix")
    layout.create()
    return layout


def installed(layout, manifest, *, allow=False):
    highest = sequence.check(layout, manifest, allow)
    write_whole(sequence.path_of(layout), highest.dump(), 0o644)
    return highest


def test_the_highest_is_kept_and_a_lower_one_refused(layout):
    for number in (5, 5, 8, 8):
        assert installed(layout, numbered(number)).products == {"tiny": number}
    with pytest.raises(UsageError, match="older than a bundle of tiny") as caught:
        sequence.check(layout, numbered(7))
    assert "7, the highest so far 8" in caught.value.why
    assert "--allow-downgrade" in caught.value.mend


def test_a_downgrade_does_not_lower_the_mark(layout):
    installed(layout, numbered(8))
    assert installed(layout, numbered(3), allow=True).products == {"tiny": 8}
    with pytest.raises(UsageError):
        sequence.check(layout, numbered(3))


def test_products_do_not_count_for_each_other(layout):
    installed(layout, numbered(8))
    assert installed(layout, numbered(3, "other")).products == {"tiny": 8, "other": 3}
    renamed = dataclasses.replace(numbered(7), name="tiny+older-stack+cpu")
    with pytest.raises(UsageError):
        sequence.check(layout, renamed)


@given(data=st.binary(max_size=80))
def test_a_damaged_record_is_no_empty_one(tmp_path_factory, data):
    layout = Layout(tmp_path_factory.mktemp("p"))
    layout.state.mkdir()
    sequence.path_of(layout).write_bytes(data)
    with pytest.raises(IntegrityError, match="damaged") as caught:
        sequence.check(layout, numbered(8))
    assert "--allow-downgrade" in caught.value.mend
    assert sequence.check(layout, numbered(8), True).products == {"tiny": 8}
