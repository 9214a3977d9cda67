"""A cache whose files went bad: named or mended, never packed."""

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of


@pytest.mark.parametrize("name", ["stub_vllm-1.0-py3-none-any.whl", "libgcc", "tqdm"])
def test_an_object_that_went_bad(bench, tmp_path, name):
    cache = bench.own_cache(tmp_path / "cache", packed=False)
    locked = bench.locked()
    pinned = [(item.url, item.sha256) for item in (*locked.conda, *locked.runtime_conda)]
    pinned += [(item.filename, item.sha256) for item in (*locked.wheels, *locked.runtime_wheels)]
    sha256 = next(digest for label, digest in pinned if name in label)
    damage(cache / "objects" / sha256[:2] / sha256)

    done = bench.follow(tmp_path / "media", cache=str(cache))
    refused(done, ExitCode.INTEGRITY, name, "went bad", "run the command again")
    assert rest_of(tmp_path / "media", cache) == []
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr


def test_a_packed_environment_that_went_bad(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    damage(next(cache.glob("packed/*/env.tar.zst")))
    done = bench.follow(tmp_path / "media", cache=str(cache))
    refused(done, ExitCode.INTEGRITY, "env.tar.zst", "run the same command again")
    assert rest_of(tmp_path / "media", cache) == []
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert "runtime: built before" in done.stderr


def test_a_listing_that_went_bad_is_made_anew(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    listing = next(cache.glob("packed/*/runtime.tar.gz")).with_name("entries.json")
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
