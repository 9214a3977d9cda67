"""Real pip-tools, a loopback index and a folder that compete for a name (case B10)."""

import sys
from pathlib import Path

import pytest

from manifests.errors import UsageError
from manifests.lock import Target
from tests.support.index import Index, serving, wheel
from wheelhouse.resolve import Resolver
from wheelhouse.sources import Sources

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def index():
    with serving(Index()) as index:
        yield index


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own wheels").mkdir()
    return tmp_path / "own wheels"


@pytest.fixture
def resolve(index, folder, tmp_path):
    """Resolve from both; gives versions by name, and what was told."""
    calls = []

    def run(*requirements):
        calls.append(None)
        made = Resolver(
            Sources(index.simple, (str(folder),), timeout=5),
            Path(sys.executable),
            Target(("cpu",), "2.28", PYTHON),
            "",
            tmp_path / f"scratch{len(calls)}",
        )
        found = made.resolve(requirements)
        return {wheel.name: wheel.version for wheel in found}, made.notes

    return run


def put(folder, *arguments, **keywords):
    name, data = wheel(*arguments, **keywords)
    (folder / name).write_bytes(data)


def test_a_local_build_is_passed_over_where_nobody_named_it(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["torch==2.10.0"]))
    index.add(wheel("torch", "2.10.0", requires=["lib"]))
    index.add(wheel("lib", "1.0"))
    put(folder, "torch", "2.10.0+cu128")
    put(folder, "torch", "2.10.0+cu130")
    found, notes = resolve("app")
    assert found == {"app": "1.0", "torch": "2.10.0", "lib": "1.0"}
    (note,) = notes
    assert note.startswith("torch 2.10.0 is taken; 2.10.0+cu130 from ")
    assert str(folder) in note


@pytest.mark.parametrize("root", ["torch==2.10.0+cu128", "torch===2.10.0+cu128"])
def test_a_local_build_that_a_root_names_is_taken(index, folder, resolve, root):
    index.add(wheel("app", "1.0", requires=["torch==2.10.0"]))
    index.add(wheel("torch", "2.10.0"))
    put(folder, "torch", "2.10.0+cu128")
    assert resolve("app", root) == ({"app": "1.0", "torch": "2.10.0+cu128"}, [])


def test_a_local_build_that_a_wheel_names_is_taken(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["torch==2.10.0+cu128"]))
    index.add(wheel("torch", "2.10.0"))
    put(folder, "torch", "2.10.0+cu128")
    assert resolve("app") == ({"app": "1.0", "torch": "2.10.0+cu128"}, [])


def test_a_local_build_is_taken_where_there_is_nothing_else(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["torch==2.10.0"]))
    put(folder, "torch", "2.10.0+cu128")
    assert resolve("app")[0]["torch"] == "2.10.0+cu128"


def test_b10_bait_on_the_index_is_passed_over_and_told(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["corp>=0.9"]))
    index.add(wheel("corp", "99.0", requires=["evil"]))
    index.add(wheel("evil", "1.0"))
    put(folder, "corp", "0.9")
    put(folder, "corp", "1.0")
    found, notes = resolve("app")
    assert found == {"app": "1.0", "corp": "1.0"}
    (note,) = notes
    assert note == f"corp 1.0 from {folder} is taken; {index.simple} has 99.0 under the same name"


def test_b10_a_stranger_that_is_needed_is_refused(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["corp>=2"]))
    index.add(wheel("corp", "99.0"))
    put(folder, "corp", "1.0")
    with pytest.raises(UsageError) as caught:
        resolve("app")
    for part in (str(folder), "has 1.0", index.simple, "has 99.0"):
        assert part in caught.value.what
    assert "corp==99.0" in caught.value.mend


def test_b10_a_stranger_that_a_root_names_is_meant(index, folder, resolve):
    index.add(wheel("app", "1.0", requires=["corp>=1"]))
    index.add(wheel("corp", "99.0"))
    put(folder, "corp", "1.0")
    assert resolve("app", "corp==99.0") == ({"app": "1.0", "corp": "99.0"}, [])


def test_a_folder_of_copies_is_no_rival(index, folder, resolve):
    copy = index.add(wheel("lib", "1.0"))
    index.add(wheel("lib", "2.0"))
    (folder / copy.filename).write_bytes(copy.data)
    assert resolve("lib") == ({"lib": "2.0"}, [])


def test_a_newer_release_in_the_folder_is_what_its_owner_wants(index, folder, resolve):
    index.add(wheel("lib", "1.0"))
    put(folder, "lib", "1.1")
    assert resolve("lib") == ({"lib": "1.1"}, [])
