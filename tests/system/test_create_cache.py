"""A cache whose files went bad: told of, and just what went bad is had again; never packed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from manifests.digests import hash_file
from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of
from tests.support.variants import manifest_of

#: Root reads everything but for this.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])


def link(path: Path) -> None:
    """What it leads to is right: today."""
    kept = path.with_name(f"{path.name}-elsewhere")
    path.rename(kept)
    path.symlink_to(kept)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


def close(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    path.chmod(0)


def lose(path: Path) -> None:
    path.unlink()


AT_A_GLANCE = {"cut": cut, "link": link, "folder": folder, "closed": close}


@pytest.fixture(scope="module")
def launcher() -> tuple[str, ...]:
    """Runs a command that reads no file which its mode closes."""
    if os.geteuid() != 0:
        return ()
    if subprocess.run([*WITHOUT_RIGHTS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us give up rights")
    return WITHOUT_RIGHTS


@pytest.fixture(scope="module")
def expected(bench, tmp_path_factory) -> str:
    """The manifest's sha256 of the bundle that every one of these runs has to make."""
    output = tmp_path_factory.mktemp("expected")
    done = bench.follow(output)
    assert done.returncode == 0, done.stderr
    return made(output)


def made(output: Path) -> str:
    (bundle,) = output.iterdir()
    return manifest_of(bundle)[1]


def items(bench) -> dict[str, str]:
    """A conda package's and a wheel's file name, and their sha256."""
    locked = bench.locked()
    (package,) = (package for package in locked.conda if package.name == "libgcc")
    (stub,) = locked.wheels
    return {package.url.rpartition("/")[2]: package.sha256, stub.filename: stub.sha256}


def place(cache: Path, sha256: str) -> Path:
    return cache / "objects" / sha256[:2] / sha256


def inodes(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in cache.glob("objects/*/*") if path.is_file()}


@pytest.mark.parametrize("fault", [*AT_A_GLANCE, "lost"])
def test_objects_that_are_seen_to_be_bad(bench, tmp_path, launcher, expected, fault):
    cache = bench.own_cache(tmp_path / "cache")
    before = inodes(cache)
    for sha256 in items(bench).values():
        (AT_A_GLANCE | {"lost": lose})[fault](place(cache, sha256))
    done = bench.follow(tmp_path / "media", cache=str(cache), launcher=launcher)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "went bad" in line]
    assert len(told) == (0 if fault == "lost" else 2)
    for name, sha256 in items(bench).items():
        assert fault == "lost" or any(name in line for line in told)
        assert hash_file(place(cache, sha256)) == sha256
        assert not place(cache, sha256).is_symlink()
    again = [path for path, inode in inodes(cache).items() if before.get(path) != inode]
    assert {path.name for path in again if "-" not in path.name} == set(items(bench).values())
    assert made(tmp_path / "media") == expected


@pytest.mark.e2e
def test_objects_whose_bytes_changed(bench, tmp_path, expected):
    """That shows when they are used, in the middle of building."""
    cache = bench.own_cache(tmp_path / "cache", packed=False)
    for sha256 in items(bench).values():
        damage(place(cache, sha256))
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    for name, sha256 in items(bench).items():
        assert f"cache: {name} went bad (its sha256 is " in done.stderr
        assert hash_file(place(cache, sha256)) == sha256
    assert made(tmp_path / "media") == expected


@pytest.mark.parametrize("fault", ["cut", "flipped"])
def test_offline_the_bad_object_is_named(bench, tmp_path, fault):
    for number, (name, sha256) in enumerate(items(bench).items()):
        cache = bench.own_cache(tmp_path / f"cache{number}", packed=fault == "cut")
        (cut if fault == "cut" else damage)(place(cache, sha256))
        done = bench.follow(tmp_path / "media", "--offline", cache=str(cache))
        refused(done, ExitCode.SOURCE, name, "--offline", "run once without --offline")
        assert rest_of(tmp_path / "media", cache) == []


# What tells a file that is none is one piece of code, and a runtime takes its time to be built.
@pytest.mark.parametrize(
    "fault",
    ["flipped", *(pytest.param(fault, marks=pytest.mark.e2e) for fault in ("link", "folder"))],
)
def test_a_packed_environment(bench, tmp_path, launcher, expected, fault):
    cache = bench.own_cache(tmp_path / "cache")
    harms = AT_A_GLANCE | {"flipped": damage}
    for packed in cache.glob("packed/*/runtime.tar.gz"):  # other tests have left theirs
        harms[fault](packed)
    done = bench.follow(tmp_path / "media", cache=str(cache), launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert "cache: the runtime went bad (" in done.stderr
    assert "build the runtime" in done.stderr
    assert "serving environment: built before" in done.stderr
    assert made(tmp_path / "media") == expected


def test_a_serving_environment_that_went_bad_is_built_anew(bench, tmp_path, expected):
    cache = bench.own_cache(tmp_path / "cache")
    for packed in cache.glob("packed/*/env.tar.zst"):
        damage(packed)
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert "build the serving environment" in done.stderr
    assert "runtime: built before" in done.stderr
    assert made(tmp_path / "media") == expected


FAULTS = AT_A_GLANCE | {"flipped": damage, "lost": lose}


PAIRS = list(zip(FAULTS, [*FAULTS][1:] + [*FAULTS][:1], strict=True))


@pytest.mark.parametrize(("fault", "other"), PAIRS)
def test_what_was_read_of_the_libraries(bench, tmp_path, launcher, expected, fault, other):
    """It is read again, out of the archive: nothing is built. Each fault hits each of two files."""
    cache = bench.own_cache(tmp_path / "cache")
    harms = {"kernels.json": FAULTS[fault], "elf.json": FAULTS[other]}
    before = {
        name: {path: path.read_bytes() for path in cache.glob(f"packed/*/{name}")} for name in harms
    }
    for name, harm in harms.items():
        for path in before[name]:
            harm(path)
    done = bench.follow(tmp_path / "media", cache=str(cache), launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert "build the " not in done.stderr
    assert "read the libraries of the serving environment" in done.stderr
    for files in before.values():
        mended = [p for p in files if p.is_file() and not p.is_symlink() and os.access(p, os.R_OK)]
        assert [p for p in mended if p.read_bytes() == files[p]]
    assert made(tmp_path / "media") == expected


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_folder_of_a_packed_environment_that_is_none(bench, tmp_path, expected):
    cache = bench.own_cache(tmp_path / "cache")
    for number, packed in enumerate(list(cache.glob("packed/*/runtime.tar.gz"))):
        shutil.rmtree(packed.parent)
        if number % 2:
            packed.parent.touch()
        else:
            packed.parent.symlink_to(cache / "objects")
    done = bench.follow(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert made(tmp_path / "media") == expected
    assert len(list(cache.glob("objects/*/*"))) > 10


@pytest.mark.parametrize("fault", ["rubbish", "folder"])
def test_a_resolution_that_went_bad_is_made_anew(bench, tmp_path, fault):
    cache = bench.own_cache(tmp_path / "cache")
    before = {path: path.read_bytes() for path in (cache / "resolutions").iterdir()}
    for path in before:
        path.unlink()
        if fault == "folder":
            path.mkdir()
        else:
            path.write_bytes(b"\0" * 100)
    done = bench.create(tmp_path / "media", cache=str(cache))
    assert done.returncode == 0, done.stderr
    # Those that this request asks for; others are of other tests.
    assert any(path.is_file() and path.read_bytes() == before[path] for path in before)
