"""What a delta carries, and which deltas no reader takes."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.saving import expected, saving
from manifests import bundle, delta, tree
from manifests.errors import IntegrityError
from tests.support.deltas import NEW, NEW_MODEL, OLD, base_of
from tests.support.simulator import Simulator, sha256

WHOLE = Simulator(environment=NEW, model=NEW_MODEL).manifest()
BASE = base_of(Simulator(environment=OLD))
CARRIED = tuple(delta.carried_members(WHOLE.members, BASE.manifest.members))
DELTA = delta.Delta(
    BASE.manifest.name,
    BASE.digest,
    bundle.digest_of(WHOLE.dump()),
    WHOLE.members,
    delta.runs_of(WHOLE.environment, BASE.manifest.environment),
)
MADE = dataclasses.replace(WHOLE, members=CARRIED, delta=DELTA)

contents = st.sampled_from([sha256(bytes([n])) for n in range(6)])
kinds = st.one_of(
    st.just({"kind": tree.FOLDER}),
    st.just({"kind": tree.LINK, "target": "somewhere"}),
    st.builds(lambda digest: {"sha256": digest, "size": 1}, contents),
    st.builds(
        lambda digest: {"sha256": digest, "size": 1, "rewrite": tree.Rewrite("/x", "text")},
        contents,
    ),
)
trees = st.lists(kinds, max_size=30).map(
    lambda found: tuple(tree.Entry(f"e{n}", **fields) for n, fields in enumerate(found))
)


@given(environment=trees, base=trees)
def test_everything_is_carried_or_taken_and_nothing_twice(environment, base):
    carried, taken = delta.split(environment, delta.runs_of(environment, base))
    assert sorted((*carried, *taken), key=environment.index) == list(environment)
    held = {entry.sha256 for entry in base if entry.kind == tree.FILE and entry.rewrite is None}
    assert all(e.kind == tree.FILE and e.rewrite is None and e.sha256 in held for e in taken)
    plain = [e for e in carried if e.kind == tree.FILE and e.rewrite is None]
    assert not any(entry.sha256 in held for entry in plain)


@given(environment=trees, base=trees)
def test_the_same_two_listings_give_the_same_runs_in_one_form(environment, base):
    runs = delta.runs_of(environment, base)
    assert sum(runs) == len(environment)
    assert all(run > 0 for run in runs[1:])


def test_what_the_base_has_under_another_name_is_taken():
    carried, taken = delta.split(WHOLE.environment, DELTA.runs)
    assert {entry.path for entry in carried if entry.kind == tree.FILE} == {"lib/new", "lib/one"}
    assert {"share/moved", "share/none", "lib/large"} < {entry.path for entry in taken}


def test_documents_and_the_runtime_are_always_carried():
    left_out = {m.path for m in WHOLE.members} - {m.path for m in CARRIED}
    assert left_out == {"model/sub/weights.safetensors", "model/sub/copy"}


def test_a_delta_is_read_back_and_makes_the_whole_manifest():
    found = bundle.parse(MADE.dump())
    assert found == MADE
    assert found.whole().dump() == WHOLE.dump()
    assert bundle.parse(WHOLE.dump()).whole().dump() == WHOLE.dump()


def changed(members=None, **fields):
    made = dataclasses.replace(DELTA, **fields)
    return dataclasses.replace(MADE, delta=made, members=CARRIED if members is None else members)


def entry_runs(manifest, path):
    """Runs that take just one entry."""
    place = [entry.path for entry in manifest.environment].index(path)
    return tuple(n for n in (place, 1, len(manifest.environment) - place - 1) if n or not place)


FOREIGN = bundle.Member("model/foreign", bundle.MODEL, 1, "1" * 64)
ESCAPING = bundle.Member("model/../../escaped", bundle.MODEL, 1, "1" * 64)
ATTACKS = {
    "another whole": (changed(manifest_sha256="1" * 64), "makes the manifest"),
    "no digest of the whole": (changed(manifest_sha256="../x"), "not the sha256"),
    "no digest of the base": (changed(base_sha256="x"), "not the sha256"),
    "itself as base": (changed(base_sha256=DELTA.manifest_sha256), "itself"),
    "a base with a path for a name": (changed(base="../x"), "not a plain name"),
    "too few runs": (changed(runs=DELTA.runs[:-1]), "runs"),
    "too many runs": (changed(runs=(*DELTA.runs, 1)), "runs"),
    "a negative run": (changed(runs=(-1, *DELTA.runs, 1)), "runs"),
    "an empty run": (changed(runs=(*DELTA.runs, 0)), "runs"),
    "a folder from the base": (changed(runs=entry_runs(WHOLE, "bin")), "can't be taken"),
    "a link from the base": (changed(runs=entry_runs(WHOLE, "lib/libexample.so")), "can't be"),
    "a member of no whole": (changed((*CARRIED, FOREIGN)), "no member of the whole"),
    "a member with other bytes": (
        changed((*CARRIED[:-1], dataclasses.replace(CARRIED[-1], sha256="1" * 64))),
        "differs from the whole",
    ),
    "another order": (changed((CARRIED[1], CARRIED[0], *CARRIED[2:])), "is missing"),
    "no runtime": (changed(CARRIED[1:]), "missing"),
    "no archive of the environment": (
        changed(tuple(m for m in CARRIED if m.role != bundle.ENVIRONMENT)),
        "missing",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_delta_that_no_packer_writes(attack):
    made, told = ATTACKS[attack]
    with pytest.raises(IntegrityError, match=told):
        bundle.parse(made.dump())


@pytest.mark.parametrize(
    ("member", "told"), [(FOREIGN, "does not fit its base"), (ESCAPING, "not allowed")]
)
def test_a_whole_that_lists_what_it_should_not(member, told):
    """Rightly digested, so that just the look at the members can refuse it."""
    members = (*WHOLE.members, member)
    digest = bundle.digest_of(dataclasses.replace(WHOLE, members=members).dump())
    made = changed(members=CARRIED, manifest_sha256=digest)
    made = dataclasses.replace(made, delta=dataclasses.replace(made.delta, members=members))
    with pytest.raises(IntegrityError, match=told):
        check(bundle.parse(made.dump()))


def check(made, base=BASE.manifest):
    delta.check_base(made.delta, made.members, made.environment, base.members, base.environment)


def test_the_base_that_it_was_made_for_fits():
    check(MADE)


@pytest.mark.parametrize("path", ["lib/large", "lib/moved"])
def test_a_delta_that_counts_on_what_the_base_has_not(path):
    poorer = Simulator(environment={k: v for k, v in OLD.items() if k != path}).manifest()
    with pytest.raises(IntegrityError, match="does not fit its base"):
        check(MADE, poorer)


def test_a_delta_that_carries_what_the_base_has():
    weights = WHOLE.members[-1]
    with pytest.raises(IntegrityError, match=r"model/sub/copy"):
        check(dataclasses.replace(MADE, members=(*CARRIED, weights)))
    every = (len(WHOLE.environment),)
    with pytest.raises(IntegrityError, match="does not fit its base"):
        check(changed(runs=every))


def test_what_a_plan_expects_is_what_a_delta_saves():
    found = expected(BASE.manifest, BASE.digest, WHOLE.environment, WHOLE.members)
    saved = saving(MADE)
    assert (found.base_sha256, found.taken) == (saved.base_sha256, saved.taken)
    assert saving(WHOLE) is None
