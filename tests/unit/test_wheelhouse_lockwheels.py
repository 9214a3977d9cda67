"""Lock, fetch, repair and install with the real tools, from a loopback index into a real prefix."""

import dataclasses
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.lock import Target
from manifests.records import from_data, to_data
from manifests.stack import Flavour, Repair, Server, Stack, stacks
from tests.support.index import Index, serving, wheel
from wheelhouse.install import check, install
from wheelhouse.lockwheels import (
    AUTO,
    Resolution,
    lock_requirements,
    lock_wheels,
    obtain,
    volume,
)
from wheelhouse.sources import Sources
from wheelhouse.store import Store

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = Target(("cpu",), "2.28", PYTHON)
CHANGE = Repair(
    wheel="server==1.0",
    reason="it asks for a build that nobody has",
    requires={"engine": "engine==2.0"},
    tag="py3-none-any",
    add={"server_added.py": "added = True\n"},
)
STACK = Stack(
    name="test-1",
    summary="a stack of dummies",
    gpus=("cpu",),
    python=(PYTHON,),
    glibc="2.28",
    cpu_flags=(),
    resolution_date="2026-11-01T00:00:00Z",
    architectures=(),
    conda=(),
    winning_libraries=(),
    runtime=(),
    server=Server("server"),
    flavours=(
        Flavour("rare", "with a rare engine", ("engine==2.0+rare",), ("server==1.0",)),
        Flavour("plain", "repaired", (), ("server==1.0+repaired", "engine===2.0"), (CHANGE,)),
    ),
)


@pytest.fixture
def index():
    with serving(Index()) as index:
        index.add(
            wheel(
                "server",
                "1.0",
                requires=["engine==2.0+rare", "helper"],
                wheel_tag="cp38-cp38-linux_x86_64",
            )
        )
        index.add(wheel("engine", "2.0"))
        index.add(wheel("helper", "0.1"))
        yield index


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache" / "objects")


@pytest.fixture
def lock(index, store, tmp_path):
    """Lock the stack; every call has a scratch folder of its own."""
    calls = []

    def lock(flavour=AUTO, **changes):
        calls.append(None)
        settings = {
            "python": Path(sys.executable),
            "target": TARGET,
            "sources": Sources(index.simple, timeout=5),
            "store": store,
            "scratch": tmp_path / f"scratch{len(calls)}",
        }
        return lock_wheels(STACK, flavour, **(settings | changes))

    return lock


@pytest.fixture
def prefix(tmp_path):
    venv.create(tmp_path / "a prefix", with_pip=False, symlinks=True)
    return tmp_path / "a prefix"


def run(prefix, code):
    done = subprocess.run(
        [prefix / "bin/python", "-I", "-B", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_from_index_to_a_clean_prefix(index, store, lock, prefix, tmp_path):
    known = lock()
    flavour, wheels = known.flavour, known.wheels
    assert flavour == "plain"
    assert [f"{w.name}=={w.version}" for w in wheels] == [
        "engine==2.0",
        "helper==0.1",
        "server==1.0+repaired",
    ]
    # A lock is followed elsewhere: nothing is in the store there, and the digests must come out.
    other = Store(tmp_path / "other")
    sources = Sources(index.simple, timeout=5)
    seen = []
    obtain(wheels, STACK, flavour, sources=sources, store=other, progress=seen.append)
    assert sum(seen) == sum(w.size if w.derived is None else w.derived.size for w in wheels)
    assert other.path(wheels[2].sha256).read_bytes() == store.path(wheels[2].sha256).read_bytes()

    install(wheels, prefix=prefix, store=other, scratch=tmp_path / "in")
    assert check(prefix, tmp_path / "in") == ()
    assert run(prefix, "import server, server_added, engine; print(engine.version)") == "2.0"
    found = run(prefix, "from importlib.metadata import version as v; print(v('server'))")
    assert found == "1.0+repaired"
    packages = prefix / f"lib/python{PYTHON}/site-packages"
    assert not list(packages.rglob("*.pyc"))
    assert not (packages / "pip").exists()


def test_wheels_beyond_the_builders_glibc_are_installed(index, store, prefix, tmp_path):
    index.add(wheel("newer", "1.0", "py3-none-manylinux_2_98_x86_64"))
    sources = Sources(index.simple, timeout=5)
    wheels = lock_requirements(
        ["newer"],
        date="",
        python=Path(sys.executable),
        target=Target(("cpu",), "2.98", PYTHON),
        sources=sources,
        store=store,
        scratch=tmp_path / "scratch",
    )
    obtain(wheels, STACK, "plain", sources=sources, store=store)
    install(wheels, prefix=prefix, store=store, scratch=tmp_path / "in")
    assert check(prefix, tmp_path / "in") == ()
    assert run(prefix, "import newer; print(newer.version)") == "1.0"


def test_the_bytes_to_come_are_known_beforehand(index, store, lock, tmp_path):
    known = lock()
    flavour, wheels = known.flavour, known.wheels
    seen = []
    sources = Sources(index.simple, timeout=5)
    other = Store(tmp_path / "other")
    obtain(wheels, STACK, flavour, sources=sources, store=other, progress=seen.append)
    assert volume(wheels) == sum(seen)
    assert volume([dataclasses.replace(wheels[0], size=0), *wheels[1:]]) == 0


def test_what_was_passed_over_is_told_again(index, lock, tmp_path):
    (tmp_path / "folder").mkdir()
    name, data = wheel("helper", "0.1+mine")
    (tmp_path / "folder" / name).write_bytes(data)
    sources = Sources(index.simple, (str(tmp_path / "folder"),), timeout=5)
    told = []
    lock(sources=sources, tell=told.append)
    assert told[0].startswith("helper 0.1 is taken; 0.1+mine from")
    lock(sources=sources, tell=told.append, offline=True)
    assert told[0] == told[1]


def test_another_gpu_is_the_same_question(index, lock):
    first = lock()
    asked = len(index.requests)
    assert lock(target=dataclasses.replace(TARGET, gpus=("sm_90",), driver="535.1")) == first
    assert len(index.requests) == asked


def test_the_second_run_asks_nobody(index, store, lock):
    first = lock()
    sources = Sources(index.simple, timeout=5)
    obtain(first.wheels, STACK, first.flavour, sources=sources, store=store)
    asked = len(index.requests)
    assert lock(offline=True) == first
    assert lock() == first
    obtain(first.wheels, STACK, first.flavour, sources=sources, store=store, offline=True)
    assert len(index.requests) == asked


def test_offline_without_an_answer_is_a_source_error(lock):
    with pytest.raises(SourceError, match="not resolved before"):
        lock(offline=True)


def test_a_new_wheel_in_a_folder_changes_the_answer(index, lock, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    sources = Sources(index.simple, (str(folder),), timeout=5)
    assert lock(sources=sources).flavour == "plain"
    name, data = wheel("engine", "2.0+rare")
    (folder / name).write_bytes(data)
    known = lock(sources=sources)
    flavour, wheels = known.flavour, known.wheels
    assert flavour == "rare"
    assert wheels[0].url == f"file:{name}"


def test_flavours_are_chosen_by_name_too(lock):
    with pytest.raises(UsageError) as caught:
        lock("absent")
    assert "rare, plain" in caught.value.mend
    with pytest.raises(SourceError, match=r"engine==2\.0\+rare"):
        lock("rare")


def test_a_lock_of_an_unknown_repair_is_refused(index, lock, tmp_path):
    known = lock()
    flavour, wheels = known.flavour, known.wheels
    plain = dataclasses.replace(STACK.flavours[1], repairs=())
    newer = dataclasses.replace(STACK, flavours=(plain,))
    with pytest.raises(IntegrityError, match="does not know how it was repaired"):
        obtain(
            wheels,
            newer,
            flavour,
            sources=Sources(index.simple, timeout=5),
            store=Store(tmp_path / "other"),
        )


def test_plain_requirements(index, store, tmp_path):
    wheels = lock_requirements(
        ["helper"],
        date="",
        python=Path(sys.executable),
        target=TARGET,
        sources=Sources(index.simple, timeout=5),
        store=store,
        scratch=tmp_path / "scratch",
    )
    assert [wheel.filename for wheel in wheels] == ["helper-0.1-py3-none-any.whl"]
    kept = Resolution("", wheels)
    assert from_data(Resolution, to_data(kept)) == kept


def test_a_bad_object_stops_the_installation_and_is_removed(index, store, prefix, tmp_path, lock):
    known = lock()
    flavour, wheels = known.flavour, known.wheels
    sources = Sources(index.simple, timeout=5)
    obtain(wheels, STACK, flavour, sources=sources, store=store)
    bad = store.path(wheels[1].sha256)
    bad.chmod(0o644)
    bad.write_bytes(bad.read_bytes() + b"!")
    with pytest.raises(IntegrityError, match="helper"):
        install(wheels, prefix=prefix, store=store, scratch=tmp_path / "in")
    assert not bad.exists()
    assert not list((prefix / f"lib/python{PYTHON}/site-packages").glob("server*"))
    obtain(wheels, STACK, flavour, sources=sources, store=store)
    install(wheels, prefix=prefix, store=store, scratch=tmp_path / "again")


def test_check_names_what_is_wrong(store, prefix, tmp_path):
    name, data = wheel("server", "1.0", requires=["engine"])
    folder = prefix / f"lib/python{PYTHON}/site-packages"
    (tmp_path / name).write_bytes(data)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", tmp_path / name, folder], check=True)
    (tmp_path / "in").mkdir()
    (finding,) = check(prefix, tmp_path / "in")
    assert "server 1.0 requires engine" in finding


def test_every_stack_pins_what_its_repairs_make():
    for stack in stacks().values():
        for flavour in stack.flavours:
            for change in flavour.repairs:
                name, _, version = change.wheel.partition("==")
                assert f"{name}=={version}+{change.label}" in flavour.requirements
