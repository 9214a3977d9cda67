"""What is damaged in a tiny installation is mended from its medium, and nothing else is touched."""

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl import cli
from bundlectl.layout import Layout
from bundlectl.mending import Picker, Suspect, wanted
from bundlectl.replace import DRAFT
from manifests import bundle, placement, tree
from manifests.audit import audit
from manifests.audit.installation import areas
from manifests.exitcodes import ExitCode
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support import killing
from tests.support.simulator import Simulator

IGNORED = ("--ignore", "port", "--ignore", "glibc")


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def installed(media, tmp_path_factory):
    """Shared: take `host` before harming it."""
    prefix = tmp_path_factory.mktemp("installed") / "host"
    words = ["install", "--no-start", *IGNORED, "--media", str(media[0]), "--manifest", media[1]]
    assert call(*words, "--prefix", str(prefix))[0] == 0
    return prefix


@pytest.fixture
def host(installed, tmp_path):
    """A copy in the same place: paths are written into its files."""
    kept = tmp_path / "kept"
    shutil.copytree(installed, kept, symlinks=True)
    yield installed
    shutil.rmtree(installed)
    kept.rename(installed)


def call(*words: str) -> tuple[int, str, str]:
    """Exit status and what was said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(words)
    return int(status), out.getvalue(), err.getvalue()


def repair(prefix: Path, media: tuple[Path, str], *words: str) -> dict[str, object]:
    """`sh install.sh repair --json`, from where install.sh hands over."""
    status, out, err = call(
        *("repair", "--json", "--prefix", str(prefix)),
        *("--media", str(media[0]), "--manifest", media[1], *words),
    )
    assert "Traceback" not in out + err
    return {"status": status, **json.loads(out)}


def release(prefix: Path, media: tuple[Path, str]) -> Path:
    return prefix / "releases" / killing.release_of(media)


def model(prefix: Path) -> Path:
    (folder,) = (prefix / "models").iterdir()
    return folder


def state(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: kind, mode, bytes or target."""
    found = {}
    for path, entry in tree.walk(root):
        status = entry.stat(follow_symlinks=False)
        kind = tree.kind_of(entry)
        content: object = (root / path).read_bytes() if kind == tree.FILE else b""
        content = (root / path).readlink() if kind == tree.LINK else content
        found[path] = (kind, status.st_mode, content)
    return found


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HARMS = {
    "flipped": flip,
    "emptied": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "missing": Path.unlink,
    "closed": lambda path: path.chmod(0o000),
    "setuid": lambda path: path.chmod(0o4755),
    "folder": replace_by_folder,
    "pipe": replace_by_pipe,
}
FILES = ("env/bin/python", "env/bin/tool", "env/lib/libexample.so.1", "runtime/bin/python")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", [*FILES, "bundle.json", "bundle.lock", "weights"])
def test_one_file(host, media, harm, name):
    whole = state(host / "releases") | state(host / "models")
    path = release(host, media) / name
    if name == "weights":
        path = model(host) / "sub/weights.safetensors"
    HARMS[harm](path)
    assert not audit(host).intact
    done = repair(host, media)
    assert done["status"] == 0
    assert [item["path"] for item in done["mended"]] == [str(path.relative_to(host))]
    assert done["left"] == done["removed"] == []
    assert audit(host).intact
    assert state(host / "releases") | state(host / "models") == whole


def test_nothing_is_wrong(host, media):
    before = {path: path.lstat() for path in host.rglob("*")}
    done = repair(host, media)
    assert (done["status"], done["mended"], done["read"]) == (0, [], 0)
    after = {path: path.lstat() for path in host.rglob("*")}
    assert {p: s.st_ino for p, s in before.items()} == {p: s.st_ino for p, s in after.items()}


@pytest.mark.parametrize("name", ["env", "env/lib", "runtime", "", "model", "model/sub"])
def test_a_whole_folder(host, media, name):
    whole = state(host / "releases") | state(host / "models")
    path = release(host, media) / name
    if name.startswith("model"):
        path = model(host) / name.removeprefix("model").strip("/")
    shutil.rmtree(path)
    assert repair(host, media)["status"] == 0
    assert state(host / "releases") | state(host / "models") == whole


def test_a_link_to_a_copy_in_place_of_a_folder(host, media, tmp_path):
    """What lies below was looked at through the link, and seemed well."""
    whole = state(host / "releases")
    library = release(host, media) / "env/lib"
    shutil.copytree(library, tmp_path / "lib", symlinks=True)
    shutil.rmtree(library)
    library.symlink_to(tmp_path / "lib")
    before = state(tmp_path / "lib")
    assert repair(host, media)["status"] == 0
    assert state(host / "releases") == whole
    assert state(tmp_path / "lib") == before


def test_modes_and_links_need_no_medium(host, media):
    whole = state(host / "releases")
    folder = release(host, media)
    (folder / "env/lib").chmod(0o777)
    (folder / "env/lib/libexample.so").unlink()
    (folder / "env/lib/libexample.so").symlink_to("/etc/passwd")
    (folder / "env/bin/tool").chmod(0o600)
    done = repair(host, media)
    assert (done["status"], done["read"], len(done["mended"])) == (0, 0, 3)
    assert state(host / "releases") == whole


def test_only_what_is_needed_is_read(tmp_path):
    """Members that need nothing are passed over, and what comes after the last wanted file."""
    noise = random.Random(1).randbytes(6 << 20)
    content = {"bin": None, "bin/first": b"1", "lib": None, "lib/noise": noise, "lib/last": b"2"}
    simulator = Simulator(environment=content, model={"config.json": b"{}", "weights": noise})
    folder, digest = simulator.write(tmp_path / "media")
    root = tmp_path / "host"
    root.mkdir()

    def read(*paths: str) -> int:
        with closing(ArchiveStream(Medium(folder, manifest_sha256=digest))) as stream:
            reader = BundleReader(stream, digest)
            manifest = reader.manifest
            name = bundle.release_id(manifest.name, digest)
            files = [
                Suspect(area, entry)
                for area in areas(manifest, digest, str(root))
                for entry in area.entries
                if entry.path in paths
            ]
            for file in files:
                file.place(root).parent.mkdir(parents=True, exist_ok=True)
            picker, told = Picker(root, told_bytes.append), told_bytes
            needs = wanted(manifest, name, files)
            picker.run(reader, needs)
            assert picker.damages == []
            assert all(file.look(root) is None for file in files)
            assert sum(told) == sum(need.member.size for need in needs)
            told.clear()
            return picker.read

    told_bytes: list[int] = []
    assert read("config.json") == 2
    assert read("env/lib/last") > len(noise)
    assert read("weights") == len(noise)
    assert read("config.json", "weights") == len(noise) + 2


def test_extra_files_are_left_unless_told_otherwise(host, media):
    whole = state(host / "releases")
    folder = release(host, media)
    (folder / "env/lib/mine/deep").mkdir(parents=True)
    (folder / "env/lib/mine/deep/file").write_text("mine")
    (model(host) / "pytorch_model.bin").write_text("?")
    done = repair(host, media)
    assert done["status"] == ExitCode.INTEGRITY
    assert {item["problem"] for item in done["left"]} == {"extra"}
    assert (folder / "env/lib/mine/deep/file").read_text() == "mine"
    text = call("repair", *("--prefix", str(host), "--media", str(media[0])))[1]
    assert "--remove-extra" in text
    done = repair(host, media, "--remove-extra")
    assert (done["status"], len(done["removed"])) == (0, 4)
    assert state(host / "releases") == whole
    assert audit(host).intact


def test_a_folder_with_somebodys_files_in_place_of_a_file(host, media):
    whole = state(host / "releases")
    path = release(host, media) / "env/bin/python"
    replace_by_folder(path)
    (path / "mine").write_text("mine")
    flip(release(host, media) / "env/lib/libexample.so.1")
    done = repair(host, media)
    assert done["status"] == ExitCode.INTEGRITY
    assert [item["path"].rpartition("/")[2] for item in done["mended"]] == ["libexample.so.1"]
    assert (path / "mine").read_text() == "mine"
    assert repair(host, media, "--remove-extra")["status"] == 0
    assert state(host / "releases") == whole


def test_a_folder_with_somebodys_files_in_place_of_the_manifest(host, media):
    whole = state(host / "releases")
    path = release(host, media) / "bundle.json"
    replace_by_folder(path)
    (path / "mine").write_text("mine")
    done = repair(host, media)
    assert done["status"] == ExitCode.INTEGRITY
    assert str(path.relative_to(host)) in [item["path"] for item in done["left"]]
    assert (path / "mine").read_text() == "mine"
    assert repair(host, media, "--remove-extra")["status"] == 0
    assert state(host / "releases") == whole


def again(host, media, *words):
    """The same install once more."""
    return call(
        *("install", "--no-start", *IGNORED, "--media", str(media[0]), "--manifest", media[1]),
        *("--prefix", str(host), *words),
    )


def test_what_is_ignored_on_a_re_run_gets_into_the_receipt(host, media):
    """A start asks the receipt which checks were ignored."""
    place = placement.receipt_path(host, killing.release_of(media))
    assert placement.load_receipt(place).ignored == ("glibc", "port")
    before = place.read_bytes()
    assert again(host, media)[0] == 0
    assert place.read_bytes() == before
    assert again(host, media, "--ignore", "model-fit")[0] == 0
    assert placement.load_receipt(place).ignored == ("glibc", "model-fit", "port")
    assert audit(host).intact


def test_a_receipt_that_can_t_be_read_is_written_anew_by_an_install(host, media):
    place = placement.receipt_path(host, killing.release_of(media))
    place.write_bytes(b"{")
    assert again(host, media)[0] == 0
    assert placement.load_receipt(place).manifest_sha256 == media[1]
    assert audit(host).intact


@pytest.mark.parametrize(
    "line", ['extra_arguments = ["--port", "1"]', '[environment]\nHF_HUB_OFFLINE = "0"']
)
def test_wrong_settings_are_told_before_anything_is_unpacked(host, media, line):
    weights = model(host) / "sub/weights.safetensors"
    flip(weights)
    before = state(host / "models") | state(host / "state/receipts")
    (host / "etc/serve.toml").write_text(f"{line}\n")
    status, _, err = again(host, media)
    assert status == ExitCode.USAGE
    assert "serve.toml" in err
    assert state(host / "models") | state(host / "state/receipts") == before


def test_a_dry_run_changes_nothing_and_says_what_would_be(host, media):
    flip(model(host) / "sub/weights.safetensors")
    (release(host, media) / "env/bin/tool").unlink()
    (release(host, media) / "env/mine").touch()
    before = state(host)
    done = repair(host, media, "--dry-run")
    assert state(host) == before
    assert done["dry_run"] is True
    assert {item["problem"] for item in done["mended"]} == {"altered", "missing"}
    assert (done["status"], done["intact"]) == (ExitCode.INTEGRITY, False)
    after = repair(host, media)
    for key in ("mended", "left", "status"):
        assert done[key] == after[key]
    assert after["read"] <= done["read"]
    assert repair(host, media, "--dry-run", "--remove-extra")["status"] == 0
    assert state(host / "releases") != before


def test_another_bundle_is_refused(host, media, tmp_path):
    folder, digest = Simulator(name="other").write(tmp_path / "other")
    flip(model(host) / "sub/weights.safetensors")
    before = state(host)
    done = repair(host, (folder, digest))
    assert done["status"] == ExitCode.USAGE
    assert digest in done["error"]
    assert media[1] in done["why"]
    assert killing.release_of(media) in done["why"]
    assert state(host) == before


def test_without_a_medium(host):
    status, _, err = call("repair", "--prefix", str(host))
    assert status == ExitCode.USAGE
    assert "--from" in err


RECEIPTS = {
    "missing": Path.unlink,
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
    "of another": lambda path: path.write_text(re.sub("[0-9a-f]{64}", "0" * 64, path.read_text())),
    "of another place": lambda path: path.write_text(path.read_text().replace("/host", "/hoax")),
    "of no place": lambda path: path.write_text(path.read_text().replace("/host", "/\\u0000")),
}


@pytest.mark.parametrize("harm", RECEIPTS)
def test_a_damaged_receipt(host, media, harm):
    whole = state(host / "releases")
    RECEIPTS[harm](placement.receipt_path(host, killing.release_of(media)))
    flip(release(host, media) / "bundle.json")
    status, _, err = call("repair", "--prefix", str(host), "--from", str(media[0]))
    assert status == ExitCode.INTEGRITY
    assert f"sh '{media[0]}/install.sh' repair --prefix '{host}'" in err
    done = repair(host, media)
    assert done["status"] == 0
    receipt = placement.load_receipt(placement.receipt_path(host, killing.release_of(media)))
    assert (receipt.manifest_sha256, receipt.prefix) == (media[1], str(host))
    assert audit(host).intact
    assert state(host / "releases") == whole


def test_an_installation_that_was_moved(host, media, tmp_path):
    """Or one that is mounted elsewhere, to be repaired: its files name the place that it has."""
    moved = tmp_path / "moved"
    shutil.copytree(host, moved, symlinks=True)
    flip(model(moved) / "config.json")
    before = state(moved)
    done = repair(moved, media)
    assert done["status"] == ExitCode.USAGE
    assert f"{moved}: was installed as {host}" in done["error"]
    assert state(moved) == before
    link = tmp_path / "link"
    link.symlink_to(host)
    flip(model(host) / "config.json")
    before = (host / "bin/bundlectl").read_bytes()
    done = repair(link, media)
    assert (done["status"], len(done["mended"])) == (0, 1)
    assert (host / "bin/bundlectl").read_bytes() == before
    assert audit(host).intact


def test_the_command_itself(host, media):
    text = (host / "bin/bundlectl").read_bytes()
    (host / "bin/bundlectl").write_bytes(text[:20])
    done = repair(host, media)
    assert [item["path"] for item in done["mended"]] == ["bin/bundlectl"]
    assert (host / "bin/bundlectl").read_bytes() == text


def test_from_a_folder_named(host, media, monkeypatch):
    flip(model(host) / "config.json")
    status, out, _ = call("repair", "--prefix", str(host), "--from", str(media[0]))
    assert status == 0
    assert "models/" in out
    assert "intact: " in out


def test_a_runtime_does_not_mend_itself(host, media, monkeypatch):
    runtime = release(host, media) / "runtime"
    flip(runtime / "bin/python")
    monkeypatch.setattr("sys.prefix", str(runtime))
    before = state(host)
    done = repair(host, media)
    assert done["status"] == ExitCode.INTEGRITY
    assert f"sh '{media[0]}/install.sh' repair" in done["mend"]
    assert state(host) == before


def test_a_medium_that_is_damaged_too(host, media, tmp_path):
    """Its other members mend what they can; what was right is not made worse."""
    folder = Path(shutil.copytree(media[0], tmp_path / media[0].name))
    (archive,) = folder.glob("*.tar")
    data = bytearray(archive.read_bytes())
    place = data.rindex(bytes(range(256)))  # in the weights
    data[place] ^= 1
    archive.write_bytes(data)
    flip(model(host) / "sub/weights.safetensors")
    flip(model(host) / "config.json")
    flip(release(host, media) / "env/bin/tool")
    done = repair(host, (folder, media[1]))
    assert done["status"] == ExitCode.INTEGRITY
    assert [item["path"] for item in done["left"]] == [
        str((model(host) / "sub/weights.safetensors").relative_to(host))
    ]
    assert len(done["mended"]) == 2
    assert "weights" in done["medium"][0]
    receipt = placement.receipt_path(host, killing.release_of(media))
    receipt.unlink()
    done = repair(host, (folder, media[1]))
    assert [item["path"].rpartition("/")[2] for item in done["left"]] == [
        "weights.safetensors",
        receipt.name,
    ]
    assert not receipt.exists()
    flip(release(host, media) / "env/bin/tool")
    assert repair(host, media)["status"] == 0


@settings(max_examples=40)
@given(place=st.integers(0, 1 << 20), cut=st.booleans())
def test_no_damage_of_the_medium_gets_in(media, place, cut, tmp_path_factory):
    """A flipped bit or an early end anywhere: each file is the listed one, or untouched."""
    folder = tmp_path_factory.mktemp("medium") / media[0].name
    shutil.copytree(media[0], folder)
    (archive,) = folder.glob("*.tar")
    data = bytearray(archive.read_bytes())
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= 1
    archive.write_bytes(data)
    root = folder.parent / "host"
    with closing(ArchiveStream(Medium(media[0]))) as whole:
        manifest = BundleReader(whole).manifest
    Layout(root).create()
    release(root, media).mkdir()
    status, out, err = call(
        *("repair", "--prefix", str(root), "--media", str(folder), "--manifest", media[1])
    )
    assert "Traceback" not in out + err
    assert status in (0, ExitCode.INTEGRITY)
    for area in areas(manifest, media[1], str(root)):
        for entry in area.entries:
            path = root / area.base / entry.path
            if entry.kind == tree.FILE and entry.rewrite is None and path.exists():
                assert path.stat().st_size == entry.size
                assert bundle.digest_of(path.read_bytes()) == entry.sha256


def test_from_volumes_in_two_folders(tmp_path):
    noise = random.Random(2).randbytes(300_000)
    simulator = Simulator(model={"config.json": b"{}", "a": noise, "b": noise[::-1]})
    folder, digest = simulator.write(tmp_path / "media", volume_size=100_000)
    prefix, other = tmp_path / "host", tmp_path / "other"
    words = ["install", "--no-start", *IGNORED, "--media", str(folder), "--manifest", digest]
    assert call(*words, "--prefix", str(prefix))[0] == 0
    other.mkdir()
    for volume in sorted(folder.glob("*.tar.*"))[2:]:
        volume.rename(other / volume.name)
    flip(model(prefix) / "b")
    flip(model(prefix) / "config.json")
    words = ["repair", "--prefix", str(prefix), "--from", str(folder)]
    status, _, err = call(*words)
    assert status == ExitCode.SOURCE
    assert "--volumes-in" in err
    assert call(*words, "--volumes-in", str(other))[0] == 0
    assert audit(prefix).intact


@pytest.fixture(scope="module")
def victim(media, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "errors"
    with closing(killing.Host(media, log)) as process:
        yield process


def harm_all(prefix: Path, media: tuple[Path, str]) -> None:
    folder = release(prefix, media)
    for name in FILES:
        flip(folder / name)
    (folder / "bundle.json").write_bytes(b"{}")
    (folder / "env/lib/libexample.so").unlink()
    shutil.rmtree(model(prefix) / "sub")
    replace_by_folder(model(prefix) / "config.json")
    placement.receipt_path(prefix, killing.release_of(media)).unlink()
    (prefix / "bin/bundlectl").unlink()


def test_a_kill_at_every_step(victim, media, tmp_path):
    prefix = tmp_path / "host"
    assert victim.install(prefix)[0] == 0
    whole = state(prefix / "releases") | state(prefix / "models")
    harm_all(prefix, media)
    status, steps = victim.install(prefix, words=("repair",))
    assert status == 0, victim.told()
    assert steps > 40
    for step in range(1, steps + 1):
        harm_all(prefix, media)
        assert victim.install(prefix, step, ("repair",))[0] == -signal.SIGKILL
        assert not placement.installed_releases(prefix) or audit(prefix).intact
        assert victim.install(prefix, words=("repair",))[0] == 0, f"{step}: {victim.told()}"
        assert state(prefix / "releases") | state(prefix / "models") == whole
        assert not list(prefix.rglob(DRAFT))
