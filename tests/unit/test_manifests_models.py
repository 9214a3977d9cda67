"""Several models and adapters in one bundle: names, places, and what no reader takes."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import bundle, members
from manifests.errors import IntegrityError
from tests.support.simulator import Simulator, sha256

OTHER = bundle.ServedModel("Other-2B", "hf:Org/Other-2B", "b" * 40)
STYLE = bundle.ServedAdapter("style", "folder:style", "c" * 64, "tiny", 8)


def member(path: str, role: str = bundle.MODEL) -> bundle.Member:
    return bundle.Member(path, role, 3, sha256(b"abc"))


def manifest(**changes) -> bundle.Manifest:
    """The simulator's, with another model and an adapter, each of one file."""
    plain = Simulator().manifest()
    more = (
        member("models/Other-2B/sub/config.json"),
        member("adapters/style/adapter_config.json", bundle.ADAPTER),
    )
    given = {"members": plain.members + more, "others": (OTHER,), "adapters": (STYLE,)}
    return dataclasses.replace(plain, **{**given, **changes})


def test_what_is_written_is_read_again():
    assert bundle.parse(manifest().dump()) == manifest()


def test_a_bundle_of_one_model_says_nothing_of_others():
    data = Simulator().manifest().dump()
    assert b'"others"' not in data
    assert b'"adapters"' not in data


def test_every_member_has_one_place():
    found = manifest()
    places = {m.path: found.place(m, "ID") for m in found.members}
    assert places["bundle.lock"] == ("releases/ID", "bundle.lock")
    assert places["model/config.json"] == (found.model_folder(), "config.json")
    assert places["models/Other-2B/sub/config.json"] == (
        "models/Other-2B@bbbbbbbbbbbb",
        "sub/config.json",
    )
    assert places["adapters/style/adapter_config.json"] == (
        "models/style@cccccccccccc",
        "adapter_config.json",
    )
    assert len({*places.values()}) == len(places)


def test_parts_list_their_files_with_folders():
    found = manifest()
    model, other, style = found.parts()
    assert [entry.path for entry in found.part_entries(other)] == ["sub", "sub/config.json"]
    assert [entry.path for entry in found.part_entries(style)] == ["adapter_config.json"]
    assert found.part_entries(model) == bundle.model_entries(found)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"others": ()}, "models/Other-2B/sub/config.json belongs to no model"),
        ({"adapters": ()}, "adapters/style/adapter_config.json belongs to no model"),
        ({"others": (OTHER, dataclasses.replace(OTHER, name="TINY"))}, "are called TINY"),
        ({"adapters": (STYLE, dataclasses.replace(STYLE, name="other-2b"))}, "called other-2b"),
        ({"others": (OTHER, dataclasses.replace(OTHER, name="../x"))}, "not a plain name"),
        ({"others": (OTHER, dataclasses.replace(OTHER, name="x", revision="a/b"))}, "is odd"),
        ({"adapters": (dataclasses.replace(STYLE, base="nobody"),)}, "which the bundle does not"),
        ({"adapters": (dataclasses.replace(STYLE, rank=0),)}, "has no rank"),
    ],
)
def test_what_no_packer_writes(changes, why):
    with pytest.raises(IntegrityError, match=why):
        bundle.parse(manifest(**changes).dump())


def test_a_role_is_that_of_the_name():
    wrong = dataclasses.replace(manifest().members[-1], role=bundle.MODEL)
    with pytest.raises(IntegrityError, match="has role"):
        bundle.parse(manifest(members=(*manifest().members[:-1], wrong)).dump())


def test_one_folder_for_two_is_refused():
    """`a@1` at revision 2…, and `a` at revision `1@2…`: two names, one folder."""
    twins = (
        bundle.ServedModel("a@1", "folder:a", "2"),
        bundle.ServedModel("a", "folder:a", "1@2"),
    )
    with pytest.raises(IntegrityError, match="two models"):
        bundle.parse(manifest(others=(OTHER, *twins)).dump())


def test_a_bundle_of_models_alone():
    members_ = tuple(m for m in manifest().members if m.role != bundle.ENVIRONMENT)
    alone = manifest(members=members_, environment=())
    assert bundle.parse(alone.dump()).model_only
    assert not bundle.parse(manifest().dump()).model_only


def test_an_environment_that_is_listed_has_to_be_there():
    members_ = tuple(m for m in manifest().members if m.role != bundle.ENVIRONMENT)
    with pytest.raises(IntegrityError, match=r"env\.tar\.zst is missing"):
        bundle.parse(manifest(members=members_).dump())


NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,20}", fullmatch=True)


@given(st.lists(NAMES, min_size=2, max_size=6, unique_by=str.casefold), st.data())
def test_each_path_belongs_to_the_part_whose_name_it_has(names, data):
    cut = data.draw(st.integers(1, len(names)))
    models = [bundle.ServedModel(name, "folder:x", "0" * 40) for name in names[:cut]]
    adapters = [
        bundle.ServedAdapter(name, "folder:x", "0" * 40, names[0], 1) for name in names[cut:]
    ]
    parts = members.parts_of(models[0], models[1:], adapters)
    for part in parts:
        assert members.part_of(part.start + "config.json", parts) is part
    assert members.part_of("bundle.lock", parts) is None
