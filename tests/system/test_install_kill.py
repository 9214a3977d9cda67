"""A kill at any moment: nothing looks complete that is not, and the next run ends it well."""

import bisect
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from bundlectl.journal import Journal, journal_path
from manifests import placement, tree
from manifests.audit import audit
from manifests.exitcodes import ExitCode
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support import killing
from tests.support.small import control, free_port, install

PORT = ("--port", str(free_port()))


BLOCK = killing.BLOCK


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("large"), is_large=True)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    return killing.make(
        tmp_path_factory.mktemp("volumes"), is_large=True, volume_size=4 * BLOCK + 512
    )


def host_of(media, tmp_path_factory):
    errors = tmp_path_factory.mktemp("log") / "errors"
    return contextlib.closing(killing.Host(media, errors, BLOCK))


@pytest.fixture(scope="module")
def victim(media, tmp_path_factory):
    with host_of(media, tmp_path_factory) as process:
        yield process


@pytest.fixture(scope="module")
def victim_of_volumes(volumes, tmp_path_factory):
    with host_of(volumes, tmp_path_factory) as process:
        yield process


@dataclass(frozen=True)
class Whole:
    """An undisturbed install."""

    steps: int
    read: int  # bytes from the medium
    found: dict[str, object]  # what it leaves


def undisturbed(victim, prefix: Path) -> Whole:
    status, steps = victim.install(prefix)
    assert status == 0, victim.told()
    return Whole(steps, victim.read, tree_of(prefix))


@pytest.fixture(scope="module")
def whole(victim, tmp_path_factory):
    return undisturbed(victim, tmp_path_factory.mktemp("whole") / "host")


@pytest.fixture(scope="module")
def steps(whole):
    """How many steps an undisturbed install takes."""
    return whole.steps


def tree_of(prefix: Path) -> dict[str, object]:
    """Modes, links and bytes of everything installed, but for what is new every time."""
    found = {}
    for path in prefix.rglob("*"):
        name = str(path.relative_to(prefix))
        mode = path.lstat().st_mode
        if path.is_symlink():
            found[name] = path.readlink()
        elif name.startswith("etc/.api-key."):
            continue  # a draft of a kill, which nobody reads
        elif path.is_file() and name != "etc/api-key" and not name.startswith("state/"):
            found[name] = mode, path.read_bytes().replace(str(prefix).encode(), b"PREFIX")
        else:
            found[name] = mode
    return found


@dataclass(frozen=True)
class Kept:
    """What must not be done again after a kill."""

    size: int  # bytes of the archive that hold it
    inodes: dict[Path, int]  # of the files, by their later place


def kept(media, prefix: Path) -> Kept:
    """What the journal says."""
    journal = Journal(journal_path(prefix, media[1]))
    manifest = manifest_of(media)
    size, inodes = 0, {}

    def keep(path: Path) -> None:
        partial = prefix / Path(*path.relative_to(prefix).parts[:2])
        there = partial.with_name(f"{partial.name}.partial") / path.relative_to(partial)
        if there.exists():  # else the kill was after its folder was renamed
            inodes[path] = there.lstat().st_ino

    release = prefix / "releases" / killing.release_of(media)
    trees = {"environment": ("env", manifest.environment), "runtime": ("runtime", manifest.runtime)}
    for member in manifest.members:
        done, numbers = member.path in journal, journal.begun(member.path)
        size += member.size if done else numbers[-1] if numbers else 0
        if member.role in trees:
            name, listed = trees[member.role]
            for entry in listed if done else listed[: numbers[0] if numbers else 0]:
                if entry.kind == tree.FILE:
                    keep(release / name / entry.path)
        elif done or numbers:
            folder, path = manifest.place(member, release.name)
            keep(prefix / folder / path)
    return Kept(size, inodes)


def manifest_of(media):
    with contextlib.closing(ArchiveStream(Medium(media[0]))) as stream:
        return BundleReader(stream, media[1]).manifest


def check_after_kill(media, prefix: Path) -> None:
    """Whatever looks complete is complete."""
    release = killing.release_of(media)
    if placement.receipt_path(prefix, release).exists():
        assert audit(prefix).intact
    assert not (prefix / "current").is_symlink()


def strike_and_continue(media, victim, whole: Whole, prefix: Path, step: int) -> Kept:
    """One kill, and the run after it; gives what was kept."""
    when = f"after step {step}"
    status, _ = victim.install(prefix, step)
    assert status == (-signal.SIGKILL if step > 0 else ExitCode.INTERRUPTED), victim.told()
    if step < 0:
        assert "run the same command again to continue" in victim.told()
        assert "Traceback" not in victim.told()
    check_after_kill(media, prefix)
    before = kept(media, prefix)
    assert victim.install(prefix)[0] == 0, f"{when}: {victim.told()}"
    assert tree_of(prefix) == whole.found, when
    again = {path: path.lstat().st_ino for path in before.inodes}
    assert again == before.inodes, f"{when}: what was verified was written again"
    assert victim.read <= whole.read - before.size, f"{when}: what was verified was read again"
    left = [*prefix.glob("*/*.partial"), *prefix.glob("state/journal/*")]
    assert left == [], when
    shutil.rmtree(prefix)
    return before


@pytest.mark.e2e
def test_a_kill_at_every_other_step(victim, media, whole, tmp_path):
    points = range(1, whole.steps, 2)  # with those of the next tests they are more than a hundred
    assert len(points) > 90
    sizes = [
        strike_and_continue(media, victim, whole, tmp_path / str(step), step).size
        for step in points
    ]
    assert len(set(sizes)) > 15, "blocks, not only members, are kept"


@pytest.mark.e2e
def test_an_interrupt_at_many_steps(victim, media, whole, tmp_path):
    for step in range(2, whole.steps, 12):
        strike_and_continue(media, victim, whole, tmp_path / str(step), -step)


def test_kills_while_volumes_are_read(victim_of_volumes, volumes, tmp_path):
    assert len(list(volumes[0].glob("*.tar.*"))) > 4
    whole = undisturbed(victim_of_volumes, tmp_path / "whole")
    for step in range(4, whole.steps, 16):
        strike_and_continue(volumes, victim_of_volumes, whole, tmp_path / str(step), step)


def test_many_kills_of_one_installation(victim, media, whole, tmp_path):
    """Each run gets a little further than the one before, and the last has little left to do."""
    prefix = tmp_path / "host"
    read = 0
    for step in range(20, whole.steps * 2, 7):
        before = kept(media, prefix).size
        status, _ = victim.install(prefix, step)
        assert kept(media, prefix).size >= before or status == 0
        if status == 0:
            break
    read = victim.read
    assert status == 0, victim.told()
    assert read < whole.read / 2
    assert tree_of(prefix) == whole.found


def begun_with(victim, media, prefix: Path, name: str, blocks: int) -> Path:
    """An install that was killed when `blocks` blocks of a member were safe; its file."""

    def reached(step: int) -> bool:
        shutil.rmtree(prefix, ignore_errors=True)
        status, _ = victim.install(prefix, step)
        journal = Journal(journal_path(prefix, media[1]))
        safe = journal.begun(name)
        ended = (prefix / "releases" / killing.release_of(media)).exists()
        return not status or ended or name in journal or safe >= (blocks * BLOCK,)

    first = 1 + bisect.bisect_left(range(1, 300), True, key=reached)
    for step in range(first, first + 5):  # threads change places
        if reached(step) and Journal(journal_path(prefix, media[1])).begun(name) == (
            blocks * BLOCK,
        ):
            return next(prefix.glob(f"models/*.partial/{name.removeprefix('model/')}"))
    raise AssertionError("never stopped there")


def test_a_wrong_byte_on_the_disk_is_not_the_mediums_fault(victim, media, whole, tmp_path):
    prefix = tmp_path / "host"
    path = begun_with(victim, media, prefix, "model/one.safetensors", 3)
    with path.open("r+b") as handle:
        handle.seek(BLOCK)
        handle.write(b"\0\0\0\0")
    before = kept(media, prefix).size
    assert victim.install(prefix)[0] == 0, victim.told()
    assert tree_of(prefix) == whole.found
    # The rest, and then that member from its start: nothing else twice.
    assert victim.read <= whole.read - before + 6 * BLOCK + 2 * len(manifest_of(media).dump())


def test_a_wrong_medium_is_blamed_when_it_was_read_alone(media, tmp_path, tmp_path_factory):
    folder = Path(shutil.copytree(media[0], tmp_path / media[0].name))
    path = folder / f"{folder.name}.tar"
    data = bytearray(path.read_bytes())
    data[-4 * BLOCK] ^= 1  # in the second half of the last shard
    prefix = tmp_path / "host"
    with host_of((folder, media[1]), tmp_path_factory) as victim:
        begun_with(victim, media, prefix, "model/two.safetensors", 1)
        path.write_bytes(data)
        for _ in range(2):
            assert victim.install(prefix)[0] == ExitCode.INTEGRITY
            assert "model/two.safetensors: expected" in victim.told()
            assert Journal(journal_path(prefix, media[1])).begun("model/two.safetensors") == ()
        data[-4 * BLOCK] ^= 1
        path.write_bytes(data)
        assert victim.install(prefix)[0] == 0, victim.told()
    assert audit(prefix).intact


def test_a_kill_inside_conda_unpack(victim, media, tmp_path):
    prefix = tmp_path / "host"
    folder = prefix / "releases" / killing.release_of(media)
    assert victim.install(prefix)[0] == 0, victim.told()
    placement.receipt_path(prefix, folder.name).unlink()
    (folder / "env/bin/tool").write_bytes(b"#!")  # what its in-place writing leaves
    assert victim.install(prefix)[0] == 0, victim.told()
    assert audit(prefix).intact
    assert str(folder) in (folder / "env/bin/tool").read_text()


def test_a_half_written_journal_or_file_is_not_believed(victim, media, whole, tmp_path):
    prefix = tmp_path / "host"
    path = begun_with(victim, media, prefix, "model/one.safetensors", 2)
    journal = journal_path(prefix, media[1])
    text = journal.read_bytes()
    for tail in (
        b"model/one.safet",
        b"model/one.safetensors\t9999",
        b"model/one.safetensors",
        b"\0\0",
    ):
        journal.write_bytes(text + tail)
        assert Journal(journal).begun("model/one.safetensors") == (2 * BLOCK,)
    with path.open("ab") as handle:
        handle.write(b"half")
    (path.parent / "two.safetensors").write_bytes(b"half")
    assert victim.install(prefix)[0] == 0, victim.told()
    assert tree_of(prefix) == whole.found


@pytest.mark.e2e
def test_kills_of_the_real_thing_at_random_moments(small_bundle, tmp_path):
    """Of one installation, again and again, until a run is quick enough to end."""
    prefix, tmp = tmp_path / "host", tmp_path / "tmp"
    tmp.mkdir()
    script = ["sh", str(small_bundle / "install.sh"), "--prefix", str(prefix), "--no-start", *PORT]
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp)}
    moments = random.Random(2)
    for _ in range(4):
        begun = time.monotonic()
        child = subprocess.Popen(
            script,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait = moments.uniform(0.5, 4)
        while child.poll() is None and time.monotonic() < begun + wait:
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGKILL) if child.poll() is None else None
        child.wait()
        shutil.rmtree(tmp)
        tmp.mkdir()
        if placement.installed_releases(prefix):
            assert audit(prefix).intact
    done = install(small_bundle, "--prefix", str(prefix), "--no-start", *PORT)
    assert done.returncode == 0, done.stderr
    assert control(prefix, "audit").returncode in (0, ExitCode.USAGE)
    assert audit(prefix).intact
    assert not list(prefix.glob("*/*.partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_told_and_leaves_no_stage(small_bundle, tmp_path, number):
    prefix, tmp = tmp_path / "host", tmp_path / "tmp"
    tmp.mkdir()
    child = subprocess.Popen(
        ["sh", str(small_bundle / "install.sh"), "--prefix", str(prefix), "--no-start", *PORT],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(prefix.glob("releases/*.partial/env/lib")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(child.pid, number)
    _, told = child.communicate(timeout=60)
    assert child.returncode == ExitCode.INTERRUPTED, told
    assert "run the same command again to continue" in told
    assert "Traceback" not in told
    assert list(tmp.iterdir()) == []
    assert list(prefix.glob("releases/*.partial"))
