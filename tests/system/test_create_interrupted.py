"""Signals at every stage, and two runs at once: the next run continues, nothing is corrupt."""

import os
import signal
import subprocess
import time
from itertools import cycle

from manifests.exitcodes import ExitCode
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


def test_what_a_killed_run_left_on_the_media_is_cleared_away(bench, tmp_path):
    left = tmp_path / ".named.partial"
    left.mkdir()
    (left / "named.tar").write_bytes(b"half")
    done = bench.follow(tmp_path, "--name", "named")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["named"]
    damage(tmp_path / "named/named.tar")
    assert bundle("audit", str(tmp_path / "named")).returncode == ExitCode.INTEGRITY
