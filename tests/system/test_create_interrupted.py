"""Signals at every stage, and two runs at once: the next run continues, nothing is corrupt."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import closing
from itertools import cycle
from pathlib import Path

import pytest

from manifests import archive
from manifests.exitcodes import ExitCode
from tests.support import killing
from tests.support.connected import COMMAND, damage, rest_of
from tests.support.small import bundle, environment

#: The end of one stage is the beginning of the next, in which the signal strikes.
LOCKING = ("look at the model", "solve the conda environment", "fetch the conda packages")
CREATING = (
    "fetch 1 wheels",
    "fetch the model",
    "build the serving environment",
    "read the libraries of the serving environment",
    "pack the serving environment",
    "build the runtime",
    "pack the runtime",
)
LOCKED = {"bundle.lock", "bundle.requirements.txt", "bundle.runtime-requirements.txt"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def start(*words):
    return subprocess.Popen(
        [*COMMAND, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def strike(process, stage, number):
    """Send a signal shortly after a stage has ended; gives what was said until then and later."""
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith(f"  {stage}"):
            break
    else:
        raise AssertionError(f"{stage} never came:\n{said}")
    time.sleep(0.05)
    # Ctrl-C goes to the whole foreground group, a service manager's SIGTERM to the process.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, rest = process.communicate(timeout=60)
    return said + rest + out


def struck(words, stage, number, output, cache):
    """Run, strike, and look at what is left; gives what was said."""
    process = start(*words)
    said = strike(process, stage, number)
    assert "Traceback" not in said
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == ExitCode.INTERRUPTED, said
        assert "run the same command again to continue" in said
        assert rest_of(output, cache) == [], (stage, number)
    assert not list(output.glob("[!.]*"))
    return said


def test_a_signal_at_every_stage_of_locking(bench, tmp_path):
    cache, output = tmp_path / "cache", tmp_path / "kept"
    words = ["lock", *bench.words(cache=str(cache)), "--lock", str(output / "bundle.lock")]
    for stage, number in zip(LOCKING, SIGNALS, strict=True):
        struck(words, stage, number, output, cache)
    done = bundle(*words)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in output.iterdir()} == LOCKED
    assert rest_of(tmp_path / "none", cache) == []


@pytest.mark.e2e
def test_a_signal_at_every_stage_of_creating(bench, tmp_path):
    cache, output = bench.own_cache(tmp_path / "cache", packed=False), tmp_path / "media"
    words = ["create", *bench.words(cache=str(cache)), "--lock", str(bench.lock)]
    words += ["--output", str(output)]
    for stage, number in zip(CREATING[:-1], cycle(SIGNALS), strict=False):
        said = struck(words, stage, number, output, cache)
        if stage == "build the runtime":
            assert "serving environment: built before" in said
    # While it writes; so small a bundle may be whole before the signal arrives.
    process = start(*words)
    assert "Traceback" not in strike(process, CREATING[-1], signal.SIGTERM)
    assert process.returncode in (0, ExitCode.INTERRUPTED)
    done = bundle(*words, "--force")
    assert done.returncode == 0, done.stderr
    assert "serving environment: built before" in done.stderr
    assert "runtime: built before" in done.stderr
    (folder,) = output.iterdir()
    assert bundle("audit", str(folder)).returncode == 0
    assert rest_of(tmp_path / "none", cache) == []


@pytest.mark.e2e
def test_two_runs_at_once_on_one_cache(bench, tmp_path):
    cache = bench.own_cache(tmp_path / "cache", packed=False)
    words = ["create", *bench.words(cache=str(cache)), "--lock", str(bench.lock), "--output"]
    runs = [start(*words, str(tmp_path / name)) for name in ("one", "two")]
    ends = [(*run.communicate(timeout=120), run.returncode) for run in runs]
    assert sorted(code for _, _, code in ends) == [0, ExitCode.USAGE], ends
    (told,) = (err for _, err, code in ends if code)
    assert "another `bundle` is at work there" in told
    assert "wait until it has ended" in told
    again = bundle(*words, str(tmp_path / "three"))
    assert again.returncode == 0, again.stderr
    made = [path for name in ("one", "two", "three") for path in tmp_path.glob(f"{name}/*")]
    assert len(made) == 2
    for path in made:
        assert bundle("audit", str(path)).returncode == 0


def test_what_a_killed_run_left_on_the_media(bench, tmp_path):
    """Foreign bytes go, and what is the start of the same bundle stays."""
    left = tmp_path / ".named.partial"
    left.mkdir()
    (left / "named.tar").write_bytes(b"half")
    done = bench.follow(tmp_path, "--name", "named")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["named"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "named").iterdir()}

    (tmp_path / "named").rename(left)
    with (left / "named.tar").open("r+b") as handle:
        handle.truncate(len(before["named.tar"]) * 2 // 3)
    inode = (left / "named.tar").stat().st_ino
    done = bench.follow(tmp_path, "--name", "named")
    assert done.returncode == 0, done.stderr
    assert ".named.partial: " in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "named").iterdir()} == before
    assert (tmp_path / "named/named.tar").stat().st_ino == inode

    damage(tmp_path / "named/named.tar")
    assert bundle("audit", str(tmp_path / "named")).returncode == ExitCode.INTEGRITY


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    with closing(killing.Writer(tmp_path_factory.mktemp("log") / "errors")) as process:
        yield process


def files(folder):
    return {path.name: (path.lstat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def kept(partial: Path, volume_size: int) -> int:
    """Bytes of members in what a kill has left, from the start without a gap."""
    if not partial.exists():
        return 0
    head = 512 if volume_size else 0
    sizes = [max(0, p.stat().st_size - head) for p in sorted(partial.glob("*.tar*"))]
    manifest = killing.large().manifest()
    left = sum(sizes) - archive.member_length("bundle.json", len(manifest.dump()))
    size = 0
    for member in manifest.members:
        left -= len(archive.header(member.path, member.size, 0))
        size += max(0, min(left, member.size))
        left -= member.size + len(archive.padding(member.size))
    return size


NAME = killing.large().name
SIZES = sum(member.size for member in killing.large().manifest().members)


@pytest.mark.parametrize("volume_size", [0, pytest.param(80_000, marks=pytest.mark.e2e)])
def test_a_kill_at_every_step_of_writing(writer, tmp_path, volume_size):
    status, steps = writer.write(tmp_path / "whole", volume_size=volume_size)
    assert status == 0, writer.told()
    assert steps > 50
    assert writer.read == SIZES
    whole = files(tmp_path / "whole" / NAME)
    seen = set()
    for step in [*range(1, steps + 1), *range(-2, -steps, -5)]:
        output = tmp_path / str(step)
        status, _ = writer.write(output, step, volume_size)
        assert status == (-signal.SIGKILL if step > 0 else ExitCode.INTERRUPTED), writer.told()
        before = kept(output / f".{NAME}.partial", volume_size)
        if (output / NAME).exists():
            assert files(output / NAME) == whole, step
            before = SIZES
        else:
            assert writer.write(output, 0, volume_size)[0] == 0, writer.told()
            assert writer.read == SIZES - before, f"after step {step}, more than the rest was read"
        assert files(output / NAME) == whole, step
        assert [path.name for path in output.iterdir()] == [NAME], step
        seen.add(before)
        shutil.rmtree(output)
    assert len(seen) > 15


def test_a_kill_at_every_step_of_replacing(writer, tmp_path):
    """There is always an old or a new bundle, but between two renames; the next run ends that."""
    for name, seed in (("old", 1), ("new", 2)):
        assert writer.write(tmp_path / name, seed=seed)[0] == 0, writer.told()
    old, new = (files(tmp_path / name / NAME) for name in ("old", "new"))
    shutil.copytree(tmp_path / "old", tmp_path / "count")
    _, steps = writer.write(tmp_path / "count", seed=2)
    between = 0
    for step in range(steps - 12, steps + 1):
        output = tmp_path / str(step)
        shutil.copytree(tmp_path / "old", output)
        assert writer.write(output, step, seed=2)[0] == -signal.SIGKILL
        if (output / NAME).exists():
            assert files(output / NAME) in (old, new), step
        else:
            assert files(output / f".{NAME}.old") == old
            between += 1
        assert writer.write(output, seed=2)[0] == 0, writer.told()
        assert files(output / NAME) == new
        assert [path.name for path in output.iterdir()] == [NAME], step
    assert between == 1
