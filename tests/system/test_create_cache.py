"""A cache whose files went bad: named or mended, never packed."""

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of


@pytest.mark.e2e
def test_objects_that_went_bad_are_fetched_again(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache", packed=False)
    locked = bench.locked()
    libgcc = next(package for package in locked.conda if package.name == "libgcc")
    (stub,) = locked.wheels
    for item in (libgcc, stub):
        damage(cache / "objects" / item.sha256[:2] / item.sha256)
    for name in ("libgcc", stub.filename):
        done = bench.follow(tmp_path / "media", cache=str(cache))
        refused(done, ExitCode.INTEGRITY, name, "went bad", "run the command again")
        assert rest_of(tmp_path / "media", cache) == []
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr


def test_a_packed_environment_that_went_bad_is_built_anew(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    for packed in cache.glob("packed/*/env.tar.zst"):  # other tests have left theirs
        damage(packed)
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert "build the serving environment" in done.stderr
    assert "runtime: built before" in done.stderr


def test_a_listing_that_went_bad_is_made_anew(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    for packed in cache.glob("packed/*/runtime.tar.gz"):
        listing = packed.with_name("entries.json")
        data = listing.read_bytes()
        place = data.rindex(b'"sha256":"') + 12
        listing.unlink()
        listing.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert "build the runtime" in done.stderr
    assert "serving environment: built before" in done.stderr


def test_a_resolution_that_went_bad_is_made_anew(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    for path in (cache / "resolutions").iterdir():
        path.unlink()
        path.write_bytes(b"\0" * 100)
    done = bench.create(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
