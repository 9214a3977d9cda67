"""A delta, made and installed as a person would: only what is new is carried, all of it arrives."""

import json
from pathlib import Path

import pytest

from bundler import tinymodel
from manifests import placement, tree
from manifests.exitcodes import ExitCode
from tests.support.connected import run
from tests.support.scratch import scratch
from tests.support.small import control, free_port, install
from tests.support.variants import manifest_of


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Names, kinds, modes, links and bytes; not the prefix, which conda-unpack writes into some."""
    found: dict[str, tuple[object, ...]] = {}
    for path, entry in tree.walk(folder):
        kind, place = tree.kind_of(entry), folder / path
        data = place.read_bytes() if kind == tree.FILE else b""
        target = str(place.readlink()) if kind == tree.LINK else ""
        found[path] = (kind, entry.stat(follow_symlinks=False).st_mode, data, target)
    return found


@pytest.fixture(scope="module")
def media(bench, small_bundle, tmp_path_factory):
    """The base; another model with the same environment, whole and as a delta."""
    root = tmp_path_factory.mktemp("media")
    tinymodel.make(root / "next")
    (root / "next/generation_config.json").write_text('{"temperature": 0.5}')
    locking = run("lock", *bench.words(model=str(root / "next")), "--lock", str(root / "lock"))
    assert locking.returncode == 0, locking.stderr
    for name, words in {"whole": (), "delta": ("--base", str(small_bundle))}.items():
        wanted = ("--lock", str(root / "lock"), "--json", *words)
        done = bench.create(root / name, *wanted, model=str(root / "next"))
        assert done.returncode == 0, done.stderr
    (whole,), (delta,) = (root / "whole").iterdir(), (root / "delta").iterdir()
    return small_bundle, whole, delta, json.loads(done.stdout)


@pytest.fixture(scope="module")
def hosts(media, tmp_path_factory):
    """One that had the base and took the delta; one that took base and whole bundle."""
    with scratch(tmp_path_factory, "hosts") as root:
        for name, folders in {"delta": media[::2], "whole": media[:2]}.items():
            prefix = root / name / "prefix"
            for folder in folders:
                port = () if prefix.exists() else ("--port", str(free_port()))
                done = install(folder, "--prefix", str(prefix), "--no-start", *port)
                assert done.returncode == 0, done.stderr
        yield root / "delta/prefix", root / "whole/prefix"


def test_it_carries_what_is_new(media):
    base, whole, delta, record = media
    assert delta.name == f"{whole.name}+delta-{manifest_of(base)[1][:8]}"
    environment = next(m for m in manifest_of(delta)[0].members if m.path == "env.tar.zst")
    assert environment.size < 100_000
    assert record["delta"]["base_sha256"] == manifest_of(base)[1]
    assert record["delta"]["taken"]["files"] > 800 > 10 > record["delta"]["carried"]["files"]
    manifest, digest = manifest_of(delta)
    assert manifest.delta.manifest_sha256 == manifest_of(whole)[1] != digest


def test_what_is_installed_is_the_whole_bundle(media, hosts):
    ours, theirs = hosts
    assert control(ours, "audit").returncode == ExitCode.OK
    assert placement.installed_releases(ours) == placement.installed_releases(theirs)
    name = next(n for n in placement.installed_releases(ours) if n.startswith(media[1].name))
    manifest, _ = placement.load_manifest(ours, name)
    rewritten = {f"env/{e.path}" for e in manifest.environment if e.rewrite is not None}
    found, wanted = (snapshot(prefix / "releases" / name) for prefix in hosts)
    assert found.keys() == wanted.keys()
    differing = {path for path in found if found[path] != wanted[path]}
    assert differing <= rewritten  # by the prefix alone, as the audit has found
    assert snapshot(ours / manifest.model_folder()) == snapshot(theirs / manifest.model_folder())
    one, other = (placement.load_receipt(placement.receipt_path(p, name)) for p in hosts)
    assert (one.manifest_sha256, one.release) == (other.manifest_sha256, other.release)


def test_its_base_is_asked_for_by_name(media, tmp_path):
    done = install(media[2], "--prefix", str(tmp_path / "host"), "--no-start")
    assert done.returncode == ExitCode.USAGE
    assert (
        f"this is a delta on {media[0].name} (manifest {manifest_of(media[0])[1]})" in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "host").exists()


def test_what_is_said_of_it_on_its_medium(media, tmp_path):
    base, whole, delta, _ = media
    for words in (("audit", str(delta)), ("verify", str(delta))):
        done = run(*words)
        assert "Traceback" not in done.stderr
        assert words[0] == "verify" or done.returncode == ExitCode.OK, done.stdout
    seen = run("inspect", str(delta), "--json")
    told = json.loads(seen.stdout)
    assert told["delta"]["base"] == manifest_of(base)[0].name
    assert told["model"] == json.loads(run("inspect", str(whole), "--json").stdout)["model"]
    assert "delta on" in run("inspect", str(delta)).stdout
    compared = json.loads(run("diff", str(delta), str(whole), "--json").stdout)
    assert compared["same"], compared["changes"]
    joined = run("join", str(delta), "--output", str(tmp_path))
    assert joined.returncode == ExitCode.OK, joined.stderr
    assert run("audit", str(tmp_path / delta.name)).returncode == ExitCode.OK


def test_a_delta_of_a_delta_names_the_whole(bench, media, tmp_path):
    """What the base was carried as does not matter: its whole bundle is meant."""
    words = ("--base", str(media[2]), "--lock", str(bench.lock))
    done = bench.create(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.iterdir()
    assert manifest_of(made)[0].delta.base_sha256 == manifest_of(media[1])[1]


def test_repair_borrows_from_the_base_or_names_it(media, hosts):
    prefix = hosts[0]
    name = next(n for n in placement.installed_releases(prefix) if n.startswith(media[1].name))
    release = prefix / "releases" / name
    library = max((release / "env/lib").glob("*.so*"), key=lambda path: path.lstat().st_size)
    twin = prefix / "releases" / next(n for n in placement.installed_releases(prefix) if n != name)
    twin = twin / library.relative_to(release)
    right = library.read_bytes()
    library.write_bytes(right[:-1] + b"\0\1")
    done = control(prefix, "repair", "--from", str(media[2]))
    assert done.returncode == ExitCode.OK, done.stdout
    assert library.read_bytes() == right
    library.write_bytes(b"")
    twin.write_bytes(b"")
    done = control(prefix, "repair", "--from", str(media[2]))
    assert done.returncode == ExitCode.INTEGRITY
    assert f"a delta on {media[0].name}" in done.stdout
    assert "sh install.sh repair there" in done.stdout
    for folder in (media[0], media[2]):
        control(prefix, "repair", "--from", str(folder))
    assert control(prefix, "audit").returncode == ExitCode.OK
