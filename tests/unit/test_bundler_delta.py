"""Cutting a delta out of a packed environment, and where its base is read from."""

import dataclasses
from dataclasses import replace

import pytest

from bundler import delta
from manifests import bundle, tree
from manifests.console import ignore_progress
from manifests.digests import hash_file
from manifests.errors import IntegrityError, UsageError
from tests.support import deltas
from tests.support.locked import a_lock
from tests.support.simulator import Simulator, archive_of

BASE = Simulator(name="old", environment=deltas.OLD)
WHOLE = Simulator(name="new", environment=deltas.NEW, model=deltas.NEW_MODEL)


def test_the_archive_holds_what_is_carried_and_is_the_same_each_time(tmp_path):
    packed, paths = deltas.packed_of(WHOLE, tmp_path), [tmp_path / "one", tmp_path / "two"]
    base = deltas.base_of(BASE)
    made = [delta.cut(WHOLE.manifest(), base, packed, path, ignore_progress) for path in paths]
    assert made[0] == made[1]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    (member,) = made[0].of_role(bundle.ENVIRONMENT)
    assert (member.size, member.sha256) == (paths[0].stat().st_size, hash_file(paths[0]))
    kept = {entry.path for entry in made[0].packed}
    content = {path: data for path, data in deltas.NEW.items() if path in kept}
    with delta.pack.unzstd(paths[0]) as plain:
        assert plain.read() == archive_of(content)


def test_an_archive_in_the_cache_that_went_bad_is_refused(tmp_path):
    packed = deltas.packed_of(WHOLE, tmp_path)
    other = Simulator(environment={**deltas.NEW, "lib/one": b"Another one"}).manifest()
    spoilt = dataclasses.replace(packed, entries=other.environment)
    with pytest.raises(IntegrityError, match="was altered in the cache"):
        delta.cut(WHOLE.manifest(), deltas.base_of(BASE), spoilt, tmp_path / "out", ignore_progress)


def test_an_archive_that_is_none_any_more_is_refused(tmp_path):
    packed = deltas.packed_of(WHOLE, tmp_path)
    data = bytearray(packed.path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    packed.path.write_bytes(data)
    with pytest.raises(IntegrityError):
        delta.cut(WHOLE.manifest(), deltas.base_of(BASE), packed, tmp_path / "out", ignore_progress)


def test_only_files_that_the_base_lacks_need_room():
    locked = a_lock()
    model = locked.model
    kept, new = (
        replace(one, size=size, sha256=digest * 64)
        for one, size, digest in ((model.files[0], 100, "a"), (model.files[0], 7, "b"))
    )
    unknown = replace(kept, path="config.json", size=3, sha256="", git_blob="c" * 40)
    locked = replace(locked, model=replace(model, files=(kept, new, unknown)))
    manifest = BASE.manifest()
    there = replace(manifest.members[0], sha256="a" * 64)
    base = delta.Base(replace(manifest, members=(there,)), "0" * 64)
    assert delta.to_carry(locked, base) == 10
    assert delta.to_carry(locked, None) == 110


def test_a_base_is_the_whole_bundle_wherever_it_is_read(tmp_path):
    whole, digest = WHOLE.write(tmp_path)
    made, _ = deltas.write(WHOLE, BASE, tmp_path / "delta")
    (tmp_path / "bundle.json").write_bytes(WHOLE.manifest().dump())
    found = [delta.load(place) for place in (whole, made, tmp_path / "bundle.json")]
    assert found == [delta.Base(WHOLE.manifest(), digest)] * 3


def test_places_that_hold_no_base(tmp_path):
    (tmp_path / "bundle.json").write_bytes(b"{}\n")
    with pytest.raises(IntegrityError):
        delta.load(tmp_path / "bundle.json")
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UsageError):
            delta.load(place)


def test_a_bundle_with_no_base_goes_as_it_is(tmp_path):
    packed = deltas.packed_of(WHOLE, tmp_path)
    with delta.carried(WHOLE.manifest(), None, packed, None, None) as (manifest, path):
        assert (manifest, path) == (WHOLE.manifest(), packed.path)


def test_a_delta_of_itself_is_refused():
    with pytest.raises(UsageError, match="is the base itself"):
        delta.plan(BASE.manifest(), deltas.base_of(BASE))


def test_links_and_folders_are_all_carried():
    made = delta.plan(WHOLE.manifest(), deltas.base_of(BASE))
    manifest = dataclasses.replace(WHOLE.manifest(), delta=made)
    odd = [entry for entry in manifest.environment if entry.kind != tree.FILE]
    assert set(odd) <= set(manifest.packed)
