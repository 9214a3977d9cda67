"""Which model a release serves: chosen, inherited or its own, whatever was killed or removed."""

import dataclasses
import json
import os

import pytest

from bundlectl import modellist, models, service
from bundlectl.command import Adapter, lora_arguments
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from manifests import FORMAT_VERSION, bundle, canonical, placement
from manifests.errors import IntegrityError, TargetError, UsageError
from manifests.lock import Target
from tests.support.simulator import Simulator

STYLE = bundle.ServedAdapter("style", "folder:x", "d" * 40, "a", 8)


@pytest.fixture
def layout(tmp_path):
    made = Layout(tmp_path / "host")
    made.create()
    return made


def put(layout, name, model, *others, alone=False, **changes):
    """Install a bundle's papers; gives the release's name."""
    plain = Simulator().manifest()
    members = plain.members
    if alone:
        members = tuple(m for m in members if m.role != bundle.ENVIRONMENT)
        changes["environment"] = ()
    manifest = dataclasses.replace(
        plain, name=name, model=model, others=others, members=members, **changes
    )
    data = manifest.dump()
    digest = bundle.digest_of(data)
    release = bundle.release_id(name, digest)
    layout.release(release).mkdir()
    (layout.release(release) / "bundle.json").write_bytes(data)
    receipt = placement.Receipt(1, release, digest, str(layout.prefix), 0, "test")
    placement.receipt_path(layout.prefix, release).write_bytes(receipt.dump())
    return release


def model(name, digit="1", **changes):
    return dataclasses.replace(bundle.ServedModel(name, "folder:x", digit * 40), **changes)


def choose(layout, release, name):
    service.commit(layout, release, models.find(layout, release, name))


def test_a_release_serves_its_default(layout):
    release = put(layout, "one", model("a"), model("b"))
    assert models.to_serve(layout, release).name == "a"
    assert not models.path_of(layout).exists()
    choose(layout, release, "a")
    assert not models.path_of(layout).exists()  # nothing to say


def test_a_choice_is_kept_by_release(layout):
    one = put(layout, "one", model("a"), model("b"))
    two = put(layout, "two", model("a", "2"), model("c", "2"), sequence=2)
    choose(layout, one, "b")
    assert models.to_serve(layout, one).name == "b"
    choose(layout, two, "c")
    assert layout.current_release() == two
    assert models.to_serve(layout, two).name == "c"
    service.switch(layout, one)  # going back brings back what it served
    assert models.to_serve(layout, one).name == "b"


def test_a_new_release_goes_on_with_the_model_that_is_served(layout):
    one = put(layout, "one", model("a"), model("b"))
    two = put(layout, "two", model("a", "2"), model("b", "2"), sequence=2)
    other = put(layout, "three", model("d"))
    choose(layout, one, "b")
    assert models.to_serve(layout, two).reference == "b@222222222222"
    assert models.to_serve(layout, other).name == "d"


def test_a_choice_for_a_release_that_is_not_current_changes_nothing(layout):
    """What a kill between the two renames of a switch leaves."""
    one = put(layout, "one", model("a"), model("b"))
    two = put(layout, "two", model("a", "2"), model("b", "2"), sequence=2)
    choose(layout, one, "a")
    choices = models.with_choice(layout, two, models.find(layout, two, "b"))
    models.path_of(layout).write_bytes(choices.dump())
    assert layout.current_release() == one
    assert models.to_serve(layout, one).name == "a"


def test_the_releases_own_model_comes_first_then_the_newest(layout):
    one = put(layout, "one", model("a"))
    put(layout, "two", model("a", "2"), model("b", "2"), sequence=2)
    put(layout, "three", model("b", "3"), sequence=3, alone=True)
    assert models.find(layout, one, "a").reference == "a@111111111111"
    assert models.find(layout, one, "B").reference == "b@333333333333"
    assert models.find(layout, one, "b@222222222222").manifest.sequence == 2


def test_names_that_mean_nothing_to_a_release(layout):
    adapters = (dataclasses.replace(STYLE, base="a"),)
    one = put(layout, "one", model("a"), adapters=adapters)
    put(layout, "two", model("b"), stack="another")
    alone = put(layout, "three", model("c"), alone=True)
    with pytest.raises(UsageError, match="no model x is installed") as unknown:
        models.find(layout, one, "x")
    assert unknown.value.mend == "installed: a, c"
    with pytest.raises(UsageError, match="is an adapter"):
        models.find(layout, one, "style")
    with pytest.raises(TargetError, match=r"for another \(test\), the release"):
        models.find(layout, one, "b")
    for ask in (models.to_serve, lambda *words: models.find(*words, "a")):
        with pytest.raises(UsageError, match="holds models alone"):
            ask(layout, alone)


def test_a_chosen_model_that_was_removed_is_said(layout):
    one = put(layout, "one", model("a"))
    later = put(layout, "two", model("b"), alone=True)
    choose(layout, one, "b")
    placement.receipt_path(layout.prefix, later).unlink()
    with pytest.raises(UsageError, match="which is not installed"):
        models.to_serve(layout, one)
    assert [line.chosen for line in modellist.lines(layout)] == [False]
    choose(layout, one, "a")
    assert models.to_serve(layout, one).name == "a"


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schema":1,"surprise":2}\n', b"\xff"])
def test_a_damaged_record_is_said(layout, data):
    release = put(layout, "one", model("a"))
    models.path_of(layout).write_bytes(data)
    with pytest.raises(IntegrityError, match="damaged"):
        models.to_serve(layout, release)


def test_a_bundle_whose_papers_differ_hides_no_other(layout):
    one = put(layout, "one", model("a"))
    two = put(layout, "two", model("b"), alone=True)
    (layout.release(two) / "bundle.json").write_bytes(b"{}")
    assert [found.name for found in models.installed(layout)] == ["a"]
    assert models.find(layout, one, "a").name == "a"


def of_a_later_format(layout, release):
    """What a newer program installed: papers that agree, and that this one can't read."""
    path = layout.release(release) / "bundle.json"
    path.write_bytes(canonical.dumps({"schema": FORMAT_VERSION + 1}))
    receipt = placement.Receipt(
        1, release, bundle.digest_of(path.read_bytes()), str(layout.prefix), 0, "test"
    )
    placement.receipt_path(layout.prefix, release).write_bytes(receipt.dump())


def damaged(layout, release):
    (layout.release(release) / "bundle.json").write_bytes(b"{}")


@pytest.mark.parametrize("harm", [of_a_later_format, damaged])
def test_a_release_that_can_t_be_read_hides_no_other(layout, harm):
    other, good = put(layout, "a-first", model("x")), put(layout, "one", model("a"))
    harm(layout, other)
    assert [found.name for found in models.installed(layout)] == ["a"]
    manifest = dataclasses.replace(Simulator().manifest(), environment=())
    models.check_addition(layout, manifest)
    placement.receipt_path(layout.prefix, good).unlink()
    with pytest.raises(TargetError, match="none is installed"):
        models.check_addition(layout, manifest)


def test_papers_that_differ_are_mended_by_a_repair(layout):
    release = put(layout, "one", model("a"))
    damaged(layout, release)
    with pytest.raises(IntegrityError) as caught:
        placement.load_manifest(layout.prefix, release)
    assert caught.value.mend == placement.REPAIR
    placement.receipt_path(layout.prefix, release).write_bytes(b"{}")
    with pytest.raises(IntegrityError, match="not a receipt") as caught:
        placement.load_manifest(layout.prefix, release)
    assert "install.sh repair" in caught.value.mend


def test_an_addition_needs_a_release_of_its_stack(layout):
    manifest = dataclasses.replace(Simulator().manifest(), environment=())
    with pytest.raises(TargetError, match="none is installed") as empty:
        models.check_addition(layout, manifest)
    assert empty.value.findings == ()
    release = put(layout, "one", model("a"), flavour="other")
    put(layout, "two", model("b"), alone=True)  # no release, whatever its stack
    with pytest.raises(TargetError) as other:
        models.check_addition(layout, manifest)
    assert other.value.findings == (f"{release}: test (other)",)
    put(layout, "three", model("a"))
    models.check_addition(layout, manifest)


@pytest.mark.parametrize(
    ("gpus", "share", "room"),
    [(("cpu",), 0, True), (("sm_90",), 0, False), (("sm_90",), 90, False), (("sm_90",), 50, True)],
)
def test_room_for_two_servers(layout, gpus, share, room):
    release = put(layout, "one", model("a"), target=Target(gpus, "2.28", "3.11"))
    found = models.to_serve(layout, release)
    settings = ServeConfig(gpu_memory_utilization=share)
    assert service.has_room_for_two(layout, release, settings, found) is room


def test_no_room_for_two_where_the_first_holds_more_than_half(layout, tmp_path, monkeypatch):
    release = put(layout, "one", model("a"), target=Target(("sm_89",), "2.28", "3.11"))
    found = models.to_serve(layout, release)
    tool = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for free, room in ((30000, True), (4000, False)):
        tool.write_text(f"#!/bin/sh\necho GPU-1, NVIDIA L40S, 46068, {free}, Disabled, 8.9\n")
        tool.chmod(0o755)
        settings = ServeConfig(gpu_memory_utilization=50)
        assert service.has_room_for_two(layout, release, settings, found) is room


def test_no_room_for_two_where_memory_is_short(layout):
    needs = bundle.Needs("2.28", (), 1 << 60)
    release = put(layout, "one", model("a"), needs=needs)
    found = models.to_serve(layout, release)
    assert not service.has_room_for_two(layout, release, ServeConfig(), found)


def test_the_list_names_each_model_once(layout):
    adapters = (dataclasses.replace(STYLE, base="a"),)
    one = put(layout, "one", model("a"), adapters=adapters)
    two = put(layout, "two", model("a"), model("b"))
    service.switch(layout, one)
    first, second = modellist.lines(layout)
    assert (first.name, first.bundles, first.adapters) == ("a", (one, two), ("style",))
    assert (first.chosen, first.served, second.chosen) == (True, False, False)
    assert modellist.text((first, second)).startswith("* a")
    assert modellist.text(()) == "no model is installed"


def test_adapters_become_arguments_of_the_server(tmp_path):
    adapters = [
        Adapter("style", tmp_path / "models/style@1=2, and more", 4),
        Adapter("verse", tmp_path / "models/verse@3", 9),
    ]
    words = lora_arguments(adapters, "served-as")
    assert words[:4] == ["--enable-lora", "--max-lora-rank", "16", "--lora-modules"]
    assert [json.loads(word) for word in words[4:]] == [
        {"name": one.name, "path": str(one.folder), "base_model_name": "served-as"}
        for one in adapters
    ]
    # vLLM takes a word with "=" and without "," as NAME=PATH.
    assert all("," in word for word in words[4:])
    assert lora_arguments([], "served-as") == []
