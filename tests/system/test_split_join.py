"""`bundle split` and `bundle join` on the small bundle, and volumes that lie apart in an audit."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, environment, install

SIZE = "29M"
BUNDLE = (sys.executable, "-c", "from bundler.cli import main; main()")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def volumes(folder):
    return sorted(folder.glob("*.tar.*"))


@pytest.fixture(scope="module")
def split(small_bundle, tmp_path_factory):
    output = tmp_path_factory.mktemp("split")
    done = bundle("split", str(small_bundle), "--volume-size", SIZE, "--output", str(output))
    assert done.returncode == 0, done.stderr
    return output / small_bundle.name


def test_split_and_join(small_bundle, split, tmp_path):
    done = bundle("join", str(split), "--output", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["files"] == [f"{split.name}.tar"]
    assert contents(tmp_path / split.name) == contents(small_bundle)


def test_the_same_lock_created_in_volumes(workplace, small_bundle, tmp_path):
    """Split and create give the same files; the lock pins when, so one is used for both."""
    raw = bundle("inspect", str(small_bundle), "--raw", "lock")
    (tmp_path / "bundle.lock").write_text(raw.stdout)
    words = ("--lock", str(tmp_path / "bundle.lock"), "--volume-size", SIZE)
    made = workplace.create(tmp_path / "create", *words)
    done = bundle("split", str(small_bundle), "--volume-size", SIZE, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / small_bundle.name) == contents(made)


def test_what_was_split_installs(split, tmp_path):
    assert len(volumes(split)) >= 2
    done = install(split, "--prefix", str(tmp_path / "host"), "--no-start")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def apart(split, tmp_path):
    """A folder with the first volume, and one for each of the others."""
    folder = shutil.copytree(split, tmp_path / "first" / split.name)
    discs = []
    for path in volumes(folder)[1:]:
        discs.append(tmp_path / f"disc {path.suffix}")
        discs[-1].mkdir()
        shutil.move(path, discs[-1])
    return folder, discs


def audits(folder, discs):
    """The same question to both programs."""
    words = [word for disc in discs for word in ("--volumes-in", str(disc))]
    yield bundle("audit", str(folder), *words)
    yield install(folder, "audit", *words)


def test_an_audit_of_volumes_in_several_folders(apart):
    folder, discs = apart
    for done in audits(folder, discs):
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("intact: media")
    for done in audits(folder, discs[1:]):
        assert done.returncode == ExitCode.INTEGRITY
        assert f"missing: {folder.name}.tar.001" in done.stdout


def test_a_damaged_volume_on_another_disc(apart):
    folder, discs = apart
    (path,) = discs[0].iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for done in audits(folder, discs):
        assert done.returncode == ExitCode.INTEGRITY
        assert f"altered: {path.name}" in done.stdout


def test_a_join_from_several_folders(apart, small_bundle, tmp_path):
    folder, discs = apart
    files = [str(path) for disc in discs for path in disc.iterdir()]
    done = bundle("join", *files, str(folder), "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / folder.name) == contents(small_bundle)
    missing = bundle("join", str(folder), *files[1:], "--output", str(tmp_path / "other"))
    assert missing.returncode == ExitCode.SOURCE
    assert f"{folder.name}.tar.001: not on this medium" in missing.stderr
    assert not (tmp_path / "other").exists()


def on_a_small_disk(namespace, tmp_path, size, *words):
    """Run `bundle WORDS --output DISK`; gives how it ended, and what it left on the disk."""
    disk, left = tmp_path / "disk", tmp_path / "left"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size={size} none '{disk}' && \"$@\" --output '{disk}'; code=$?; "
        f"cd '{disk}' && find . -mindepth 1 > '{left}'; exit $code"
    )
    command = [*namespace, "sh", "-c", script, "sh", *BUNDLE, *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return done, left.read_text()


@pytest.mark.parametrize("joined", [True, False])
def test_a_disk_that_fills_up(small_bundle, split, tmp_path, namespace, joined):
    """There is room for the archive, and for nothing beside it."""
    words = ("join", str(split)) if joined else ("split", str(small_bundle), "--volume-size", SIZE)
    size = (small_bundle / f"{small_bundle.name}.tar").stat().st_size
    done, left = on_a_small_disk(namespace, tmp_path, -(-size // 4096) * 4096, *words)
    assert done.returncode == ExitCode.FILESYSTEM, done.stderr
    assert "No space left on device" in done.stderr
    assert left == ""


def test_a_disk_with_too_little_room(split, tmp_path, namespace):
    done, left = on_a_small_disk(namespace, tmp_path, "8m", "join", str(split))
    assert done.returncode == ExitCode.FILESYSTEM
    assert "bytes are free, the bundle takes" in done.stderr
    assert left == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(small_bundle, tmp_path, number):
    words = ["split", str(small_bundle), "--volume-size", SIZE, "--output", str(tmp_path / "out")]
    with subprocess.Popen([*BUNDLE, *words], env=environment(), stderr=subprocess.PIPE) as run:
        while run.poll() is None and not list((tmp_path / "out").glob(".*/*.tar.*")):
            time.sleep(0.001)
        run.send_signal(number)
        run.communicate()
    assert run.returncode == ExitCode.INTERRUPTED
    assert not (tmp_path / "out").exists()


def test_usage(small_bundle, tmp_path):
    for words in (
        ("split", str(small_bundle)),
        ("split", str(small_bundle), "--volume-size", "tiny", "--output", str(tmp_path)),
        ("split", str(small_bundle), "--volume-size", "1M", "--output", str(tmp_path)),
        ("split", str(tmp_path), "--volume-size", SIZE, "--output", str(tmp_path / "x")),
        ("join", str(small_bundle), "--output", str(small_bundle.parent)),
        ("join", "--output", str(tmp_path)),
    ):
        done = bundle(*words)
        assert done.returncode == ExitCode.USAGE, words
        assert "mend:" in done.stderr
    assert not list(tmp_path.iterdir())
