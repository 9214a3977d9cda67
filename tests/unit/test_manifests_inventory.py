"""Inventories: what the script prints, what a reader takes, and how two environments differ."""

import dataclasses
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl import basepython, cli
from manifests import inventory, inventory_script
from manifests.errors import UsageError
from manifests.inventory import Inventory, parse
from manifests.overlay import Overlay, Provided, differences
from tests.support import pythons

RECORDED = Path("tests/data/inventory/torch-2.11.0-cu130.json")
BYTES = RECORDED.read_bytes()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A virtual environment with a library, remains of broken installs, and an egg."""
    root = tmp_path_factory.mktemp("base") / "an environment"
    venv.create(root, with_pip=False, symlinks=True)
    site = next(root.glob("lib/python3.*/site-packages"))
    files = {
        "Some_Lib.so-1.0.dist-info/METADATA": b"Name: Some_Lib.so\nVersion: 1.0+local\n"
        b"Requires-Dist: other (>=2) ;\n  extra == 'x'\nProvides-Extra: x\n\nText",
        "Some_Lib.so-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: cp39-abi3-any\n",
        "Some_Lib.so-1.0.dist-info/RECORD": b'l/libsome.so.1,sha256=x,1\r\n"a,b/c.so",,\nd,,\n',
        "~ome_lib-1.0.dist-info/METADATA": b"Name: ~ome\nVersion: 1\n",
        "half-1.0.dist-info/INSTALLER": b"pip",
        "odd-1.dist-info/METADATA": b"\xff\xfe\0Name",
        "ghost-1.dist-info/METADATA": "Name: ghost\nVersion: 1\nRequires-Dist: a\u200bb\n".encode(),
        "slash-1.dist-info/METADATA": b"Name: slash\nVersion: 1/2\n",
        "long-1.dist-info/METADATA": b"Name: long\nVersion: 1\nProvides-Extra: " + b"x" * 9000,
        "spaced-1.dist-info/METADATA": b"Name: spaced\nVersion: 1\n",
        "spaced-1.dist-info/WHEEL": b"Tag: a b\nTag:\n",
        "old-3.egg-info": b"Metadata-Version: 1.0\nName: old\nVersion: 3\n",
    }
    for path, data in files.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_bytes(data)
    return root


def _key(part):
    return int(part) if part.isdecimal() else part


def changed(**changes):
    value = json.loads(BYTES)
    for path, new in changes.items():
        at = value
        *parts, last = path.split("__")
        for part in parts:
            at = at[_key(part)]
        at[_key(last)] = new
    return json.dumps(value).encode()


def test_the_script_tells_what_an_environment_holds(home):
    found = basepython.take(basepython.interpreter(home))
    assert found.interpreter.executable == str(home / "bin/python")
    assert Path(found.interpreter.base_executable).samefile(sys._base_executable)
    assert found.interpreter.sites == (str(next(home.glob("lib/python3.*/site-packages"))),)
    assert {one.name: one.version for one in found.distributions} == {
        "some-lib-so": "1.0+local",
        "old": "3",
    }
    some = found.by_name()["some-lib-so"]
    assert some.libraries == ("c.so", "libsome.so.1")
    assert some.requires == ("other (>=2) ; extra == 'x'",)
    assert some.record_sha256
    assert not found.by_name()["old"].record_sha256


def test_nothing_is_left_there_whatever_the_caller_s_variables_are(home, tmp_path):
    (tmp_path / "evil.py").write_text("")
    before = sorted(home.rglob("*"))
    script = tmp_path / "inventory.py"
    script.write_bytes(inventory.script_path().read_bytes())
    done = subprocess.run(
        [home / "bin/python", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    found = parse(done.stdout, "it")
    assert found.dump() == done.stdout
    assert str(tmp_path) not in found.interpreter.sites
    assert sorted(home.rglob("*")) == before
    assert sorted(tmp_path.iterdir()) == [tmp_path / "evil.py", script]


def test_another_python_runs_it_too():
    version, python = pythons.another()
    assert basepython.take(python).interpreter.minor == version


def test_both_know_the_same_flags():
    assert inventory.FLAGS == inventory_script.FLAGS


@pytest.mark.parametrize("python", ["absent", "tests", "/bin/false"])
def test_what_is_no_python_is_a_mistake_of_the_user_s(python):
    with pytest.raises(UsageError) as caught:
        basepython.take(basepython.interpreter(Path(python)))
    assert "Python" in caught.value.mend


def test_the_command_writes_it(home, tmp_path, capsys):
    target = tmp_path / "inventory.json"
    assert cli.main(["inventory", "--python", str(home), "--output", str(target)]) == 0
    assert "2 distributions" in capsys.readouterr().out
    assert cli.main(["inventory", "--python", str(home / "bin/python")]) == 0
    assert capsys.readouterr().out.encode() == target.read_bytes()
    assert inventory.load(target).by_name()["old"].version == "3"


def test_a_recorded_one_is_read_and_written_to_the_byte():
    assert inventory.load(RECORDED).dump() == RECORDED.read_bytes()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"inventory": 1, "inventory": 1}', "duplicate key"),
        (b"[1]", "not an inventory"),
        (b'{"inventory": true}', "not an inventory"),
        (changed(inventory=2), "version 2"),
        (changed(more=1), "unknown field"),
        (changed(distributions__0__name="../x"), "not the name"),
        (changed(distributions__0__name="Aiohttp"), "not the name"),
        (changed(distributions__0__name="torch"), "there twice"),
        (changed(distributions__0__version="1 ; x"), "no plain word"),
        (changed(distributions__0__requires=["a\nName: b"]), "no line of METADATA"),
        (changed(distributions__0__requires=["\ud800"]), "no line of METADATA"),
        (changed(distributions__0__record_sha256="0"), "not a sha256"),
        (changed(distributions__0__libraries=["../x.so"]), "no plain word"),
        (changed(interpreter__sites=["lib"]), "no absolute path"),
        (changed(interpreter__version="three"), "no version of Python"),
        (changed(platform__glibc="musl"), "no version of glibc"),
        (changed(markers=["x"]), "a table is needed"),
    ],
)
def test_what_no_script_printed_is_refused_in_words(data, text):
    with pytest.raises(UsageError) as caught:
        parse(data, "it.json")
    assert text in caught.value.render()
    assert "inventory-script" in caught.value.mend


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)
PATHS = [
    "interpreter",
    "interpreter__sites",
    "interpreter__soabi",
    "markers",
    "platform",
    "platform__machine",
    "distributions",
    "distributions__0",
    "distributions__0__requires",
    "distributions__0__version",
    "distributions__0__extras",
]


@settings(max_examples=60)
@given(st.sampled_from(PATHS), VALUES)
def test_anything_is_read_or_refused(path, value):
    data = changed(**{path: value})
    try:
        found = parse(data, "it")
    except UsageError:
        return
    assert parse(found.dump(), "again") == found


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data):
    with pytest.raises(UsageError):
        parse(data, "it")


def overlay(*names: str) -> tuple[Overlay, Inventory]:
    found = inventory.load(RECORDED)
    there = found.by_name()
    provided = (Provided(n, there[n].version, there[n].record_sha256) for n in names)
    return Overlay("3.12.9", found.interpreter.soabi, tuple(provided)), found


def test_an_environment_as_it_was_has_no_differences():
    assert differences(*overlay("numpy", "torch")) == ()


def test_each_difference_is_named():
    wanted, found = overlay("numpy", "torch", "triton")
    there = {one.name: one for one in found.distributions}
    there["numpy"] = dataclasses.replace(there["numpy"], version="1.0")
    there["torch"] = dataclasses.replace(there["torch"], record_sha256="0" * 64)
    del there["triton"]
    other = dataclasses.replace(found, distributions=tuple(there.values()))
    texts = [finding.text for finding in differences(wanted, other)]
    assert texts == [
        "numpy is 1.0, needed is 2.5.2",
        "torch 2.11.0 has other files (its RECORD is another)",
        "triton 3.6.0 is not there",
    ]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [("version", "3.11.3", "its Python is 3.11.3"), ("soabi", "cpython-312d-x", "cpython-312d-x")],
)
def test_another_python_is_the_only_difference_worth_telling(field, value, text):
    wanted, found = overlay("numpy")
    python = dataclasses.replace(found.interpreter, **{field: value})
    other = dataclasses.replace(found, interpreter=python, distributions=())
    (finding,) = differences(wanted, other)
    assert text in finding.text
    assert "bundlectl inventory" in finding.mend
