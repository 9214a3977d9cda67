"""`bundle lock`: what it writes, --check, --upgrade-package."""

import json
import shutil
from dataclasses import replace

import pytest

from manifests import lock
from manifests.exitcodes import ExitCode
from tests.support.connected import refused, run
from tests.support.index import wheel


@pytest.fixture
def own(bench, tmp_path):
    """A copy of the bench's lock and its requirement files; gives the lock's path."""
    for file in bench.lock.parent.glob("bundle.*"):
        shutil.copy(file, tmp_path)
    return tmp_path / "bundle.lock"


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_requirement_files_lie_beside_the_lock(bench, own):
    locked = lock.load(own)
    serving = (own.parent / "bundle.requirements.txt").read_text()
    runtime = (own.parent / "bundle.runtime-requirements.txt").read_text()
    assert f"stub-vllm==1.0 \\\n    --hash=sha256:{locked.wheels[0].sha256}\n" in serving
    assert runtime.count("--hash=sha256:") == len(locked.runtime_wheels)
    assert f"glibc {locked.target.glibc}" in serving


def test_a_lock_that_is_up_to_date(bench, own):
    before = listing(own.parent)
    done = run("lock", *bench.words(), "--lock", str(own), "--check", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"] == []
    assert listing(own.parent) == before


def test_a_lock_that_is_out_of_date_names_what_would_change(bench, own):
    locked = lock.load(own)
    older = replace(locked.wheels[0], version="0.9")
    own.write_bytes(replace(locked, wheels=(older, *locked.wheels[1:])).dump())
    before = listing(own.parent)
    done = run("lock", *bench.words(), "--lock", str(own), "--check")
    refused(done, ExitCode.INTEGRITY, "bundle.lock is out of date", "stub-vllm: 0.9 -> 1.0")
    assert listing(own.parent) == before


def test_a_requirement_file_that_was_edited_is_out_of_date(bench, own):
    file = own.parent / "bundle.requirements.txt"
    file.write_text(file.read_text().replace("stub-vllm==1.0", "stub-vllm==1.1"))
    done = run("lock", *bench.words(), "--lock", str(own), "--check")
    refused(done, ExitCode.INTEGRITY, "bundle.requirements.txt: does not say what the lock says")


@pytest.mark.parametrize("words", [("--check",), ("--upgrade-package", "tqdm")])
def test_there_has_to_be_a_lock(bench, tmp_path, words):
    done = run("lock", *bench.words(), "--lock", str(tmp_path / "no.lock"), *words)
    refused(done, ExitCode.USAGE, "no.lock")


def test_one_package_is_upgraded_and_all_else_stays(bench, own, tmp_path):
    links = tmp_path / "links"
    shutil.copytree(bench.place.links, links)
    name, data = wheel("tqdm", "99.0")
    (links / name).write_bytes(data)
    old = lock.load(own)
    words = (*bench.words(find_links=str(links)), "--lock", str(own))
    done = run("lock", *words, "--upgrade-package", "tqdm==99.0")
    assert done.returncode == 0, done.stderr
    assert "runtime's tqdm: " in done.stdout and "-> 99.0" in done.stdout
    new = lock.load(own)
    rest = [wheel for wheel in old.runtime_wheels if wheel.name != "tqdm"]
    assert [wheel for wheel in new.runtime_wheels if wheel.name != "tqdm"] == rest
    assert (new.conda, new.wheels, new.model) == (old.conda, old.wheels, old.model)
    assert "tqdm==99.0" in (own.parent / "bundle.runtime-requirements.txt").read_text()


def test_an_unknown_package_is_refused_before_anything_is_asked(bench, own):
    words = (*bench.words(), "--lock", str(own), "--upgrade-package", "tqmd")
    done = run("lock", *words)
    refused(done, ExitCode.USAGE, "the lock has no tqmd", "did you mean tqdm?")
    assert "look at the model" not in done.stderr
