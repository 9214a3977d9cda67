"""The fuzz targets, for as long as a unit test may take; tests/fuzz says how to run them longer."""

import importlib.util
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import PATIENCE
from tests.fuzz.mutate import mutations
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
FOUND = sorted((ROOT / "tests/fuzz/found").glob("[a-z]*-*"))
#: Bytes of address space: a dozen times what the interpreter and its libraries take.
MEMORY = 3 << 30


def fuzz(*words: str, folder: Path, limit: int = 120) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "installer")))
    return subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )


def test_every_target_has_a_seed():
    assert TARGETS.keys() == SEEDS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_are_read_or_refused(name):
    """An exception of any kind but BundleError leaves the target and fails this."""
    for data in mutations(name, 150):
        started = time.monotonic()
        TARGETS[name](data)
        assert time.monotonic() - started < PATIENCE, data[:200]


@pytest.mark.parametrize("file", FOUND, ids=[path.name for path in FOUND])
def test_what_was_found_once_stays_mended(file):
    TARGETS[file.name.partition("-")[0]](file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name):
    @given(data=st.binary(max_size=600))
    def check(data):
        TARGETS[name](data)

    check()


def test_small_inputs_take_neither_hours_nor_all_memory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.hostile"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "installer")))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_runs_without_atheris(tmp_path):
    done = fuzz("tests.fuzz", "listing", "--seconds", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing found" in done.stdout


def test_the_script_keeps_what_it_finds(tmp_path):
    (tmp_path / "input").write_bytes(b"\0")
    assert fuzz("tests.fuzz", "listing", "input", folder=tmp_path).returncode == 0


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_the_script_runs_with_atheris(tmp_path):
    done = fuzz("tests.fuzz", "listing", "--guided", "--seconds", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cov:" in done.stderr
