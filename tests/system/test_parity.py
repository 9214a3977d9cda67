"""A scratched medium: install.sh names it, `restore` makes a whole copy, and that installs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from manifests import sums
from manifests.bundle import digest_of
from manifests.exitcodes import ExitCode
from tests.support import roots
from tests.support.connected import DATED
from tests.support.damage import Medium, tree
from tests.support.small import bundle, install

#: Slow, for each makes, scratches and restores whole bundles; the rules are in tests/unit.
pytestmark = pytest.mark.e2e

PERCENT = 5


@pytest.fixture(scope="module")
def whole(workplace, tmp_path_factory) -> Path:
    """The small bundle with parity, whose runtime has the erasure library."""
    root = tmp_path_factory.mktemp("parity")
    stack = root / "small.toml"
    runtime = 'runtime = ["zstandard==0.25.0", "tqdm"'
    assert runtime in DATED
    stack.write_text(DATED.replace(runtime, f'{runtime}, "pyeclib==1.8.0"'))
    words = ("--parity", f"{PERCENT}%", "--name", "scratched")
    return workplace.create(root / "out", *words, stack=str(stack))


@pytest.fixture
def medium(whole, tmp_path) -> Medium:
    return Medium.of(whole, tmp_path / "medium")


def archive(medium: Medium) -> str:
    return medium.scheme.files[0].name


def hole(medium: Medium) -> int:
    """Bytes that may be lost in one place."""
    layout = medium.scheme
    return (layout.parity * layout.columns - 1) * layout.block + 1


def twin(folder: Path, *words: str, shell: str = "sh", path: str = "/usr/bin:/bin"):
    """Run restore.sh as a person would."""
    command = [shell, str(folder / "restore.sh"), *words]
    return subprocess.run(
        command, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=120
    )


def test_what_a_bundle_with_parity_holds(whole):
    names = {path.name for path in whole.iterdir()}
    assert names == {
        "install.sh",
        "restore.sh",
        "SHA256SUMS",
        "SHA256SUMS.copy",
        "scratched.tar",
        "scratched.head",
        "scratched.parity",
    }
    assert bundle("audit", str(whole)).returncode == ExitCode.OK
    told = json.loads(bundle("inspect", str(whole), "--json").stdout)
    assert told["parity"] == ["scratched.parity"]
    assert told["signatures"] == []


def test_scratched_restored_installed(medium, prefix, tmp_path):
    """The first megabytes are lost: the manifest, and the runtime that install.sh starts."""
    medium.overwrite(archive(medium), 0, hole(medium))
    refused = install(medium.folder, "--prefix", str(prefix), "--no-start")
    assert refused.returncode == ExitCode.INTEGRITY
    assert "sh install.sh restore --to" in refused.stderr
    assert not prefix.exists()
    target = tmp_path / "mended"
    done = install(medium.folder, "restore", "--to", str(target), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["damaged"] == [archive(medium)]
    assert tree(target) == tree(medium.source)
    installed = install(target, "--prefix", str(prefix), "--no-start")
    assert installed.returncode == 0, installed.stderr


def test_damage_further_in_is_told_with_the_mend(medium, prefix):
    size = (medium.folder / archive(medium)).stat().st_size
    medium.overwrite(archive(medium), size - hole(medium), hole(medium))
    refused = install(medium.folder, "--prefix", str(prefix), "--no-start")
    assert refused.returncode == ExitCode.INTEGRITY
    assert f"sh {medium.folder}/install.sh restore --to FOLDER" in refused.stderr
    audited = install(medium.folder, "audit")
    assert audited.returncode == ExitCode.INTEGRITY
    assert f"sh {medium.folder}/install.sh restore --to FOLDER" in audited.stderr


@pytest.mark.parametrize("name", ["scratched.parity", "scratched.head", "restore.sh"])
def test_damage_to_what_only_restoring_reads_does_not_stop_an_install(medium, prefix, name):
    medium.overwrite(name, 0, 5000)
    done = install(medium.folder, "--prefix", str(prefix), "--no-start")
    assert done.returncode == 0, done.stderr
    assert install(medium.folder, "audit").returncode == ExitCode.INTEGRITY


def test_a_damaged_script_has_a_twin(medium, tmp_path):
    medium.overwrite("install.sh", 200, 4000)
    medium.overwrite(archive(medium), 0, 100_000)
    target = tmp_path / "mended"
    done = twin(medium.folder, "--to", str(target))
    assert done.returncode == 0, done.stderr
    assert tree(target) == tree(medium.source)


@pytest.mark.parametrize("change", ["altered", "missing", "other digest"])
def test_a_damaged_list_has_a_copy(medium, tmp_path, change):
    path = medium.folder / "SHA256SUMS"
    if change == "missing":
        path.unlink()
    elif change == "altered":
        medium.overwrite("SHA256SUMS", 0, 200)
    else:
        lines = path.read_text().splitlines(keepends=True)
        lines[-1] = "0" * 64 + lines[-1][64:]
        path.write_text("".join(lines))
    target = tmp_path / "mended"
    done = install(medium.folder, "restore", "--to", str(target))
    assert done.returncode == 0, done.stderr
    assert tree(target) == tree(medium.source)


def test_the_trusted_list_is_the_one_that_counts(medium, tmp_path):
    trusted = digest_of((medium.folder / "SHA256SUMS").read_bytes())
    medium.overwrite("SHA256SUMS", 0, 64)
    medium.overwrite(archive(medium), 0, 1000)
    done = install(
        medium.folder, "restore", "--trust-digest", trusted, "--to", str(tmp_path / "mended")
    )
    assert done.returncode == 0, done.stderr
    refused = install(
        medium.folder, "restore", "--trust-digest", "0" * 64, "--to", str(tmp_path / "other")
    )
    assert refused.returncode == ExitCode.INTEGRITY
    assert "not the one that is trusted" in refused.stderr
    assert not (tmp_path / "other").exists()


def test_a_signature_holds_for_the_copy_of_the_list(medium, tmp_path):
    (tmp_path / "keys").mkdir()
    made = bundle("keygen", "--out", str(tmp_path / "keys"))
    assert made.returncode == 0, made.stderr
    private, public = (tmp_path / f"keys/vllm-bundle.{kind}" for kind in ("key", "pub.pem"))
    signed = bundle("sign", str(medium.folder), "--key", str(private))
    assert signed.returncode == 0, signed.stderr
    lines = (medium.folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    lines[-1] = "0" * 64 + lines[-1][64:]
    (medium.folder / "SHA256SUMS").write_text("".join(lines))
    medium.overwrite(archive(medium), 0, 1000)
    refused = install(medium.folder, "--key", str(public), "--no-start")
    assert refused.returncode == ExitCode.INTEGRITY
    done = install(medium.folder, "restore", "--key", str(public), "--to", str(tmp_path / "mended"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mended/SHA256SUMS.sig").exists()
    checked = bundle("verify", str(tmp_path / "mended"), "--key", str(public))
    assert checked.returncode == 0, checked.stderr


def test_too_much_is_told_and_leaves_nothing(medium, tmp_path):
    size = hole(medium) + 2 * medium.scheme.block
    end = (medium.folder / archive(medium)).stat().st_size
    assert end - size > medium.scheme.head  # of which there is a second copy
    medium.overwrite(archive(medium), end - size, size)
    for done in (
        install(medium.folder, "restore", "--to", str(tmp_path / "mended")),
        bundle("restore", str(medium.folder), "--to", str(tmp_path / "mended")),
    ):
        assert done.returncode == ExitCode.INTEGRITY
        assert "too much is lost" in done.stderr
        assert f"{archive(medium)}: bytes " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"medium"}


def test_the_connected_machine_restores_too(medium, tmp_path):
    medium.overwrite(archive(medium), 1000, hole(medium))
    medium.overwrite("scratched.parity", 0, 100)
    done = bundle("restore", str(medium.folder), "--to", str(tmp_path / "mended"), "--quiet")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "mended") == tree(medium.source)


def test_restoring_onto_the_damaged_medium_is_refused(medium):
    done = install(medium.folder, "restore", "--to", str(medium.folder / "mended"))
    assert done.returncode == ExitCode.USAGE
    assert "lies on the medium" in done.stderr


def test_the_word_restore_elsewhere_skips_no_check(medium, prefix):
    """Only as the first word is it the command; as an option's value it must change nothing."""
    medium.overwrite("install.sh", (medium.folder / "install.sh").stat().st_size - 2, 1)
    (medium.folder / "stranger").write_text("")
    for words in (("--prefix", "restore"), ("ask", "restore"), ("install", "restore")):
        done = install(medium.folder, *words)
        assert done.returncode != 0
    assert not prefix.exists()


def test_restoring_without_the_trusted_list_is_refused(medium, prefix, tmp_path):
    """As a later word install.sh does not know the command, and takes its key for itself."""
    (tmp_path / "keys").mkdir()
    assert bundle("keygen", "--out", str(tmp_path / "keys")).returncode == 0
    private, public = (tmp_path / f"keys/vllm-bundle.{kind}" for kind in ("key", "pub.pem"))
    assert bundle("sign", str(medium.folder), "--key", str(private)).returncode == 0
    target = tmp_path / "mended"
    for words in (("--key", str(public), "--quiet"), ("--prefix", str(prefix))):
        done = install(medium.folder, *words, "restore", "--to", str(target))
        assert done.returncode == ExitCode.USAGE, done.stderr
        assert "has to be the first word" in done.stderr
    assert not target.exists()
    assert not prefix.exists()


def test_a_pipe_in_the_place_of_the_second_copy(medium, tmp_path):
    (medium.folder / "scratched.head").unlink()
    os.mkfifo(medium.folder / "scratched.head")
    target = tmp_path / "mended"
    done = twin(medium.folder, "--to", str(target))
    assert done.returncode == 0, done.stderr
    assert tree(target) == tree(medium.source)


def test_mistakes_of_the_user(medium, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    target = str(tmp_path / "mended")
    for done, told in (
        (bundle("parity", str(tmp_path / "nope"), "--percent", "5"), "nope"),
        (
            bundle("restore", str(tmp_path / "loop"), "--to", target, "--trust-digest", "0" * 63),
            "64",
        ),
        (bundle("restore", str(medium.folder), "--to", str(tmp_path / "loop/mended")), "loop"),
        (install(medium.folder, "restore", "--to", str(tmp_path / "loop/mended")), "loop"),
    ):
        assert done.returncode == ExitCode.USAGE, done.stderr
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_a_bundle_that_exists_gets_parity(whole, tmp_path):
    written = bundle("split", str(whole), "--volume-size", "29M", "--output", str(tmp_path))
    assert written.returncode == 0, written.stderr
    assert "make it anew with `bundle parity`" in written.stderr
    folder = tmp_path / whole.name
    made = bundle("parity", str(folder), "--percent", "60", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    lost = sorted(folder.glob("*.tar.*"))[0]
    assert told["survives_bytes_in_one_place"] >= lost.stat().st_size
    before = tree(folder)
    lost.unlink()
    done = install(folder, "restore", "--to", str(tmp_path / "mended"))
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "mended") == before


def test_the_same_lock_without_parity_gives_the_same_archive(whole, workplace, tmp_path):
    raw = bundle("inspect", str(whole), "--raw", "lock")
    (tmp_path / "bundle.lock").write_text(raw.stdout)
    stack = whole.parent.parent / "small.toml"
    words = ("--name", "scratched", "--lock", str(tmp_path / "bundle.lock"))
    plain = workplace.create(tmp_path / "out", *words, stack=str(stack))
    listed = sums.parse((plain / sums.FILE_NAME).read_bytes())
    assert set(listed) == {"install.sh", "scratched.tar"}
    assert listed.items() <= sums.parse((whole / sums.FILE_NAME).read_bytes()).items()


def test_a_stack_without_the_library_is_refused_before_the_work(workplace, tmp_path):
    done = bundle("create", *workplace.flags(), "--output", str(tmp_path / "out"), "--parity", "5%")
    assert done.returncode == ExitCode.USAGE
    assert "pyeclib" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_bare_host_restores(medium, tmp_path):
    """BusyBox and glibc, no Python and no other library: what the runtime brings has to do."""
    medium.overwrite(archive(medium), 0, hole(medium))
    medium.overwrite("install.sh", 300, 100)
    with roots.busybox_root(tmp_path / "root") as root:
        root.mount(medium.folder, "/media/bundle")
        done = root.run(["sh", "/media/bundle/restore.sh", "--to", "/mended"])
        assert done.returncode == 0, done.stderr
        assert tree(tmp_path / "root/mended") == tree(medium.source)
        checked = root.run(["sh", "/mended/install.sh", "audit"])
        assert checked.returncode == 0, checked.stderr


def test_busybox_tools_read_the_list(medium, tmp_path):
    if shutil.which("busybox") is None:
        pytest.skip("this machine lacks busybox")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in roots.applets():
        (folder / name).symlink_to(str(shutil.which("busybox")))
    medium.overwrite("SHA256SUMS", 0, 200)
    medium.overwrite("scratched.head", 0, 100_000)
    target = tmp_path / "mended"
    done = twin(medium.folder, "--to", str(target), shell=str(folder / "ash"), path=str(folder))
    assert done.returncode == 0, done.stderr
    assert tree(target) == tree(medium.source)
