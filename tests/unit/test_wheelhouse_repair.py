import hashlib
import os
import subprocess
import sys
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import IntegrityError
from manifests.lock import COMPUTED, PUBLISHED, Wheel
from manifests.stack import Repair
from tests.support.index import wheel
from wheelhouse import metadata, record
from wheelhouse.repair import origin, rebuild, repair, repaired_version
from wheelhouse.store import Store

CHANGE = Repair(
    wheel="broken-thing==1.0",
    reason="it does not work beside the others",
    requires={"Torch": "torch==2.0", "audio": ""},
    tag="py3-none-manylinux_2_28_x86_64",
    add={"broken_thing/added.py": "added = True\n"},
    prepend={"broken_thing/__init__.py": "from broken_thing import added\n"},
    append={"broken_thing/__init__.py": "after = True\n"},
)
SCRIPT = "broken_thing-1.0.data/scripts/run"


def published(name, data):
    return Wheel(
        name="broken-thing",
        version="1.0",
        filename=name,
        url=f"https://index.example/{name}",
        sha256=hashlib.sha256(data).hexdigest(),
    )


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "objects")


@pytest.fixture
def broken(tmp_path):
    """A wheel with everything that CHANGE mends."""
    name, data = wheel(
        "broken-thing",
        "1.0",
        "py3-none-manylinux_2_28_x86_64",
        wheel_tag="cp312-cp312-linux_x86_64",
        requires=[
            'torch==2.0+cpu; platform_machine == "x86_64"',
            'torch==2.0; platform_machine == "ppc64le"',
            "audio>=1",
            "numpy",
        ],
        files={
            "broken_thing/__init__.py": b"x = 1\n",
            SCRIPT: b"#!python\nprint('ran')\n",
        },
    )
    (tmp_path / name).write_bytes(data)
    return tmp_path / name, published(name, data)


def opened(store, made):
    return zipfile.ZipFile(store.path(made.sha256))


def test_the_result_says_what_it_is(broken, store):
    path, origin_record = broken
    made = repair(path, origin_record, CHANGE, store)
    assert made.version == "1.0+repaired"
    assert made.filename == "broken_thing-1.0+repaired-py3-none-manylinux_2_28_x86_64.whl"
    assert made.digest_from == COMPUTED
    assert made.size == store.path(made.sha256).stat().st_size
    assert made.derived is not None
    assert made.derived.origin == path.name
    assert made.derived.sha256 == origin_record.sha256
    assert made.derived.digest_from == PUBLISHED
    said = "\n".join(made.derived.changes)
    for part in ("does not work beside", "torch==2.0+cpu", "audio>=1", "cp312-cp312", "added.py"):
        assert part in said
    assert origin(made) == origin_record


def test_the_changes_are_in_it_and_nothing_else(broken, store):
    path, origin_record = broken
    made = repair(path, origin_record, CHANGE, store)
    with opened(store, made) as after, zipfile.ZipFile(path) as before:
        info = "broken_thing-1.0+repaired.dist-info"
        text = after.read(f"{info}/METADATA").decode()
        assert "Version: 1.0+repaired\n" in text
        assert [line for line in text.splitlines() if line.startswith("Requires-Dist")] == [
            "Requires-Dist: torch==2.0",
            "Requires-Dist: numpy",
        ]
        assert text.endswith("\n\nA dummy.\n\nTag: not a header\n")
        assert b"Tag: py3-none-manylinux_2_28_x86_64\n" in after.read(f"{info}/WHEEL")
        assert b"cp312" not in after.read(f"{info}/WHEEL")
        assert after.read("broken_thing/__init__.py") == (
            b"from broken_thing import added\n"
            + before.read("broken_thing/__init__.py")
            + b"after = True\n"
        )
        renamed = SCRIPT.replace("1.0.data", "1.0+repaired.data")
        assert after.read(renamed) == before.read(SCRIPT)
        assert not [name for name in after.namelist() if "-1.0.d" in name]
        record.check(after, made.filename)


def test_the_same_bytes_wherever_and_whenever(broken, tmp_path):
    path, origin_record = broken
    first = repair(path, origin_record, CHANGE, Store(tmp_path / "one"))
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.test_wheelhouse_repair import CHANGE, published\n"
        "from wheelhouse.repair import repair; from wheelhouse.store import Store\n"
        "path, store = Path(sys.argv[1]), Store(Path(sys.argv[2]))\n"
        "origin = published(path.name, path.read_bytes())\n"
        "print(repair(path, origin, CHANGE, store).sha256)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "two"],
        env={**os.environ, "TZ": "Pacific/Apia", "PYTHONHASHSEED": "7"},
        umask=0o077,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == first.sha256


def test_an_added_program_runs_once_it_is_installed(tmp_path, store):
    name, data = wheel("broken-thing", "1.0")
    (tmp_path / name).write_bytes(data)
    program = {"broken_thing-1.0+cc.data/scripts/say": '#!/bin/sh\nexec echo "${0%/*}" "$@"\n'}
    change = Repair("broken-thing==1.0", "it lacks a program", label="cc", add=program)
    made = repair(tmp_path / name, published(name, data), change, store)
    place = tmp_path / made.filename
    place.symlink_to(store.path(made.sha256))
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir"]
    root = tmp_path / "root"
    pip = [sys.executable, "-m", "pip", *words, "--target", root, place]
    subprocess.run(pip, check=True)
    said = subprocess.run([root / "bin/say", "a b"], capture_output=True, text=True, check=True)
    assert said.stdout == f"{root}/bin a b\n"


def test_rebuilding_gives_the_locked_digest_or_says_why_not(broken, store, tmp_path):
    path, origin_record = broken
    made = repair(path, origin_record, CHANGE, store)
    fresh = Store(tmp_path / "fresh")
    with path.open("rb", buffering=0) as handle:
        fresh.adopt(handle)
    rebuild(made, CHANGE, fresh)
    assert fresh.has(made.sha256)
    other = Repair(wheel=CHANGE.wheel, reason="another", requires={"audio": ""})
    with pytest.raises(IntegrityError, match=made.sha256):
        rebuild(made, other, fresh)


@pytest.mark.parametrize(
    ("contents", "rows", "complaint"),
    [
        ({}, {"broken_thing.py": "broken_thing.py,sha256=AAAA,19\n"}, "broken_thing.py: not the"),
        ({}, {"gone.py": "gone.py,sha256=AAAA,1\n"}, "gone.py: missing"),
        ({"extra.py": b"x"}, {"extra.py": ""}, "extra.py: not in RECORD"),
        ({"unhashed.py": b"x"}, {"unhashed.py": "unhashed.py,,\n"}, "unhashed.py: not the"),
    ],
    ids=["altered", "missing", "unlisted", "without digest"],
)
def test_an_origin_that_contradicts_its_record_is_refused(
    tmp_path, store, contents, rows, complaint
):
    name, data = wheel("broken-thing", "1.0", files=contents, record=rows)
    (tmp_path / name).write_bytes(data)
    change = Repair(wheel="broken-thing==1.0", reason="any")
    with pytest.raises(IntegrityError) as caught:
        repair(tmp_path / name, published(name, data), change, store)
    assert any(complaint in finding for finding in caught.value.findings)


def test_no_zip_archive_is_refused(tmp_path, store):
    name = "broken_thing-1.0-py3-none-any.whl"
    (tmp_path / name).write_bytes(b"<html>login</html>")
    change = Repair(wheel="broken-thing==1.0", reason="any")
    with pytest.raises(IntegrityError, match="no zip archive"):
        repair(tmp_path / name, published(name, b""), change, store)


@pytest.mark.parametrize(
    "change",
    [
        Repair("broken-thing==1.0", "any", requires={"absent": ""}),
        Repair("broken-thing==1.0", "any", prepend={"absent.py": "x\n"}),
        Repair("broken-thing==1.0", "any", add={"broken_thing.py": "x\n"}),
    ],
    ids=["requirement", "prepend", "add"],
)
def test_a_change_that_does_not_apply_is_refused(broken, store, change):
    path, origin_record = broken
    with pytest.raises(IntegrityError, match=r"absent|broken_thing\.py"):
        repair(path, origin_record, change, store)


def test_versions():
    assert repaired_version("0.32.0", "repaired") == "0.32.0+repaired"
    assert repaired_version("2.13.0+cpu", "repaired") == "2.13.0+cpu.repaired"


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)


@given(st.lists(NAMES, unique=True, min_size=1), st.data())
def test_dropping_one_requirement_keeps_all_others_in_order(names, data):
    gone = data.draw(st.sampled_from(names))
    head = "Name: x\nVersion: 1\n" + "".join(f"Requires-Dist: {name}\n" for name in names)
    text, changes = metadata.with_requirements(f"{head}\nRequires-Dist: {gone}\n", {gone: ""})
    kept, _, body = text.partition("\n\n")
    assert body == f"Requires-Dist: {gone}\n"
    assert [line.split()[1] for line in kept.splitlines()[2:]] == [n for n in names if n != gone]
    assert len(changes) == 1
