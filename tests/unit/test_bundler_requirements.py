import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundler import requirements
from manifests import lock
from manifests.errors import FilesystemError
from manifests.lock import COMPUTED, Derived, Lock, Model, Target, Wheel
from tests.support.index import Index, serving, wheel

EMPTY = Lock(
    schema=lock.SCHEMA,
    created=0,
    target=Target(("sm_86",), "2.31", "3.11"),
    stack="stack-1",
    channel="host",
    flavour="plain",
    conda=(),
    runtime_conda=(),
    wheels=(),
    runtime_wheels=(),
    model=Model("m", "hf:Org/Name", "c" * 40, ()),
)


def pip(index, *words):
    settings = {
        "PIP_INDEX_URL": index.simple,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=clean | settings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def index():
    with serving(Index()) as index:
        yield index


@pytest.fixture
def locked(index):
    """A lock of two wheels that are on the index."""
    made = []
    for name, requires in (("app", ["lib"]), ("lib", [])):
        file = index.add(wheel(name, "1.0", requires=requires))
        digest = hashlib.sha256(file.data).hexdigest()
        made.append(Wheel(name, "1.0", file.filename, f"{index.url}/x", digest))
    return dataclasses.replace(EMPTY, wheels=tuple(made), runtime_wheels=tuple(made[1:]))


def test_pip_takes_them_with_required_hashes(index, locked, tmp_path):
    (serving_file, runtime_file) = requirements.write(locked, tmp_path / "bundle.lock")
    assert serving_file.name == "bundle.requirements.txt"
    assert runtime_file.name == "bundle.runtime-requirements.txt"
    words = ("pip", "install", "--require-hashes", "--dry-run", "--target", str(tmp_path / "t"))
    done = pip(index, *words, "-r", str(serving_file))
    assert done.returncode == 0, done.stderr
    assert "Would install app-1.0 lib-1.0" in done.stdout
    index.files[1] = dataclasses.replace(index.files[1], data=index.files[1].data + b"!")
    done = pip(index, *words, "-r", str(serving_file))
    assert done.returncode != 0
    assert locked.wheels[1].sha256 in done.stderr


def test_pip_compile_reads_them(index, locked, tmp_path):
    (serving_file, _) = requirements.write(locked, tmp_path / "bundle.lock")
    again = tmp_path / "again.txt"
    done = pip(
        index,
        *("piptools", "compile", "--generate-hashes", "--no-header", "--no-annotate"),
        *("--no-emit-index-url", "--quiet", "--output-file", str(again), str(serving_file)),
    )
    assert done.returncode == 0, done.stderr
    body = [line for line in serving_file.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in again.read_text().splitlines() if line] == body


def test_the_header_says_for_whom(locked):
    text, _ = requirements.texts(locked)
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0] == "# the serving environment of stack-1 (plain) for sm_86"
    assert "Python 3.11, x86_64, glibc 2.31" in head[1]


def test_what_no_publisher_vouches_for_is_said(locked):
    change = Derived("app-1.0-py3-none-any.whl", "u", "1" * 64, "published", ("a",))
    repaired = Wheel("app", "1.0+repaired", "f", "derived:f", "2" * 64, COMPUTED, change)
    local = Wheel("own", "1", "own-1-py3-none-any.whl", "file:x", "3" * 64, COMPUTED)
    text = requirements.text(locked, (local, repaired), "wheels")
    assert "# no index has this one: made from app-1.0-py3-none-any.whl\n# (sha256 1111" in text
    assert "# own-1-py3-none-any.whl from a local folder: its digest was computed here\nown" in text


def test_what_is_stale_is_named(locked, tmp_path):
    path = tmp_path / "bundle.lock"
    assert requirements.stale(locked, path) == ()
    requirements.write(locked, path)
    assert requirements.stale(locked, path) == ()
    newer = dataclasses.replace(locked, wheels=locked.wheels[:1])
    assert requirements.stale(newer, path) == (
        "bundle.requirements.txt: does not say what the lock says",
    )


def test_what_can_t_be_written_leaves_nothing(locked, tmp_path):
    (tmp_path / "bundle.requirements.txt").mkdir()
    with pytest.raises(FilesystemError, match=r"bundle\.requirements\.txt"):
        requirements.write(locked, tmp_path / "bundle.lock")
    assert [path.name for path in Path(tmp_path).iterdir()] == ["bundle.requirements.txt"]
