"""What served before, whatever was killed, pruned or damaged since."""

import pytest

from bundlectl import history, models, rollback, service
from bundlectl.layout import Layout
from manifests.console import ignore_progress
from manifests.errors import IntegrityError, UsageError
from tests.support.lifecycle import layout_at, put, serve


@pytest.fixture
def layout(tmp_path):
    return layout_at(tmp_path / "host")


@pytest.fixture
def two(layout):
    """Two releases, the second in service after the first."""
    names = put(layout, "one", "a"), put(layout, "two", "b")
    for name in names:
        serve(layout, name)
    return names


def target(layout):
    found = rollback.find(layout)
    return found.release, found.model.name


def test_twice_is_there_and_back(layout, two):
    for release, model in [(two[0], "a"), (two[1], "b"), (two[0], "a")]:
        assert target(layout) == (release, model)
        service.commit(layout, release, rollback.find(layout).model)
        assert layout.current_release() == release
        assert models.to_serve(layout, release).name == model


def test_a_switch_of_models_is_gone_back_too(layout, two):
    serve(layout, two[1], "a")
    assert target(layout) == (two[1], "b")
    service.commit(layout, two[1], rollback.find(layout).model)
    assert target(layout) == (two[1], "a")


def test_serving_the_same_again_is_no_step(layout, two):
    before = history.path_of(layout).read_bytes()
    serve(layout, two[1])
    assert history.path_of(layout).read_bytes() == before
    assert [one.release for one in history.load(layout)] == list(two)


def test_a_kill_between_switch_and_record_loses_nothing(layout, two):
    third = put(layout, "three", "c")
    service.switch(layout, third)  # and killed: the history does not know it
    assert target(layout) == (two[1], "b")
    serve(layout, two[0])
    assert target(layout) == (third, "c")


@pytest.mark.parametrize("rest", [b'{"bundle":"x","mod', b"\xff\xfe", b'{"other":1}', b"[[[1"])
def test_a_line_that_was_cut_off_is_none(layout, two, rest):
    path = history.path_of(layout)
    path.write_bytes(path.read_bytes() + rest)
    assert target(layout) == (two[0], "a")
    serve(layout, two[0])
    assert [one.release for one in history.load(layout)] == [*two, two[0]]


def test_without_a_history_there_is_no_way_back(layout):
    with pytest.raises(UsageError, match="nothing else before") as caught:
        rollback.find(layout)
    assert "--to" in caught.value.mend
    serve(layout, put(layout, "one"))
    with pytest.raises(UsageError, match="nothing else before"):
        rollback.find(layout)


def test_what_was_removed_is_refused(layout, two):
    (layout.receipts / f"{two[0]}.json").unlink()
    with pytest.raises(UsageError, match=f"{two[0]} was removed"):
        rollback.find(layout)


def test_what_is_damaged_is_refused(layout, two):
    path = layout.release(two[0]) / "bundle.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match=r"bundle\.json"):
        rollback.find(layout)
    with pytest.raises(IntegrityError):
        rollback.find(layout, two[0])


def test_a_full_audit_reads_release_and_model(layout, two):
    found = rollback.find(layout)
    rollback.audit(layout, found, ignore_progress)
    read = []
    rollback.audit(layout, found, read.append)
    assert sum(read) == rollback.size(layout, found)
    for path in (layout.environment(two[0]) / "lib/empty", *layout.models.glob("a@*/config.json")):
        data = path.read_bytes()
        path.write_bytes(data + b"x")
        with pytest.raises(IntegrityError) as caught:
            rollback.audit(layout, found, ignore_progress)
        assert path.name in caught.value.findings[0]
        path.write_bytes(data)
    other = layout.environment(two[1]) / "lib/empty"
    other.write_bytes(b"x")
    rollback.audit(layout, found, ignore_progress)


def test_a_release_that_is_named_brings_what_it_served(layout, two):
    serve(layout, two[1], "a")
    serve(layout, two[0])
    assert rollback.find(layout, two[1]).model.name == "a"
    with pytest.raises(UsageError, match="not installed"):
        rollback.find(layout, "nothing")


def test_each_instance_has_its_own(layout, two):
    other = Layout(layout.prefix, "b")
    other.create()
    serve(other, two[1])
    assert history.before(other) is None
    serve(other, two[0])
    assert rollback.find(other).release == two[1]
    assert other.current.resolve() == layout.release(two[0])
    assert layout.current.resolve() == layout.release(two[1])
