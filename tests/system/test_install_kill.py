"""A kill at any moment: nothing looks complete that is not, and the next run ends it well."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from manifests import placement
from manifests.audit import audit
from manifests.exitcodes import ExitCode
from tests.support import killing
from tests.support.small import control, free_port, install

PORT = ("--port", str(free_port()))


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def victim(media, tmp_path_factory):
    with contextlib.closing(
        killing.Host(media, tmp_path_factory.mktemp("log") / "errors")
    ) as process:
        yield process


@pytest.fixture(scope="module")
def steps(victim, tmp_path_factory):
    """How many steps an undisturbed install takes."""
    status, count = victim.install(tmp_path_factory.mktemp("whole") / "host")
    assert status == 0, victim.told()
    assert count > 40
    return count


def verified(prefix: Path, digest: str) -> dict[str, int]:
    """Inodes of the files of members that the journal names."""
    journal = prefix / f"state/journal/{digest}.txt"
    done = set(journal.read_text().splitlines()) if journal.exists() else set()
    places = {"env.tar.zst": "env", "runtime.tar.gz": "runtime"}
    found = {}
    for partial in prefix.glob("*/*.partial"):
        for path in partial.rglob("*"):
            below = str(path.relative_to(partial))
            is_model = partial.parent.name == "models"
            owner = f"model/{below}" if is_model else below
            for member, folder in places.items():
                if not is_model and below.split("/")[0] == folder:
                    owner = member
            if owner in done and path.is_file():
                found[str(path).replace(".partial", "")] = path.stat().st_ino
    return found


def check_after_kill(media, prefix: Path) -> None:
    """Whatever looks complete is complete."""
    release = killing.release_of(media)
    if placement.receipt_path(prefix, release).exists():
        assert audit(prefix).intact
    assert not (prefix / "current").is_symlink()


def test_a_kill_at_every_step(victim, media, steps, tmp_path):
    kept = 0
    for step in range(1, steps + 1):
        prefix = tmp_path / str(step)
        assert victim.install(prefix, step)[0] == -signal.SIGKILL
        check_after_kill(media, prefix)
        before = verified(prefix, media[1])
        assert victim.install(prefix)[0] == 0, f"after a kill at step {step}: {victim.told()}"
        report = audit(prefix)
        assert report.intact, f"after a kill at step {step}: {report.text()}"
        again = {path: Path(path).stat().st_ino for path in before}
        assert again == before, f"after a kill at step {step}, verified members were written again"
        kept += len(before)
        left = [*prefix.glob("*/*.partial"), *prefix.glob("state/journal/*")]
        assert left == [], f"after a kill at step {step}"
        shutil.rmtree(prefix)
    assert kept


def test_a_kill_inside_conda_unpack(victim, media, tmp_path):
    prefix = tmp_path / "host"
    folder = prefix / "releases" / killing.release_of(media)
    assert victim.install(prefix)[0] == 0, victim.told()
    placement.receipt_path(prefix, folder.name).unlink()
    (folder / "env/bin/tool").write_bytes(b"#!")  # what its in-place writing leaves
    assert victim.install(prefix)[0] == 0, victim.told()
    assert audit(prefix).intact
    assert str(folder) in (folder / "env/bin/tool").read_text()


def test_a_half_written_journal_or_file_is_not_believed(victim, media, steps, tmp_path):
    prefix = tmp_path / "host"
    for step in range(steps // 2, steps):
        shutil.rmtree(prefix, ignore_errors=True)
        victim.install(prefix, step)
        journal = prefix / f"state/journal/{media[1]}.txt"
        if journal.exists() and journal.read_text().count("\n") == 3:
            break
    text = journal.read_bytes()
    journal.write_bytes(text + b"model/sub/weights.safet")
    model = next(prefix.glob("models/*.partial"))
    (model / "sub").mkdir(exist_ok=True)
    (model / "sub/weights.safetensors").write_bytes(b"half")
    assert victim.install(prefix)[0] == 0, victim.told()
    assert audit(prefix).intact


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
