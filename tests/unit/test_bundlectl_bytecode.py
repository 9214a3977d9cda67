"""What an install compiles is what a start finds, and lies where it looks."""

import importlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from bundlectl import bytecode
from bundlectl.environment import BYTECODE
from bundlectl.layout import Layout
from manifests import digests
from tests.support import pythons
from tests.support.lifecycle import below

RELEASE = "r"
IMPORT = "import part.sub; print(part.__cached__)"


@pytest.fixture
def layout(tmp_path):
    made = Layout(tmp_path / "models/host")
    made.prefix.parent.mkdir()
    made.create()
    made.release(RELEASE).mkdir()
    environment = made.environment(RELEASE)
    command = [sys.executable, "-m", "venv", "--without-pip", environment]
    subprocess.run(command, check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    for name in ("part", "part/models", "part/tests"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("x = 1\n")
    (site / "part/sub.py").write_text("x = 2\n")
    (site / "part/broken.py").write_text("def f(:\n")
    return made


def compiled(layout):
    return sorted(path.name.partition(".")[0] for path in found(layout))


def found(layout):
    """Bytecode of the release; that of the standard library is what compiling itself imports."""
    return list(of_releases(layout).rglob("*.pyc"))


def of_releases(layout):
    return layout.cache / BYTECODE / layout.releases.relative_to("/")


def test_a_start_compiles_no_package_again(layout):
    before = below(layout.releases)
    bytecode.prepare(layout, RELEASE)
    assert compiled(layout) == ["__init__", "sub"]
    assert below(layout.releases) == before
    folder = layout.cache / BYTECODE
    assert folder.stat().st_mode & 0o777 == 0o700
    python = layout.environment(RELEASE) / "bin/python"
    command = [python, "-v", "-X", f"pycache_prefix={folder}", "-c", IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(folder))
    for name in ("__init__", "sub"):
        assert not re.search(rf"code object from \S+/part/{name}\.py$", done.stderr, re.MULTILINE)
        assert f"/part/{name}.{sys.implementation.cache_tag}.pyc matches" in done.stderr


@pytest.mark.parametrize("python", pythons.others().values(), ids=pythons.others())
def test_nothing_is_written_beside_the_sources(layout, python, monkeypatch):
    environment = layout.environment(RELEASE)
    (site,) = environment.glob("lib/python3*/site-packages")
    part = (site / "part").rename(layout.releases / "part")
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    part.rename(site / "part")
    before = below(layout.releases)
    monkeypatch.setattr(digests, "workers", lambda: 2)
    bytecode.prepare(layout, RELEASE)
    assert compiled(layout) == ["__init__", "sub"]
    assert below(layout.releases) == before


def test_what_a_kill_left_undone_is_done_by_the_next_one(layout):
    bytecode.prepare(layout, RELEASE)
    kept, lost = sorted(found(layout))
    lost.unlink()
    before = kept.stat().st_mtime_ns
    bytecode.prepare(layout, RELEASE)
    assert lost.exists()
    assert kept.stat().st_mtime_ns == before


def test_nothing_here_stops_an_install(layout, monkeypatch):
    monkeypatch.setattr(bytecode, "_RESERVE", 1 << 60)
    bytecode.prepare(layout, RELEASE)
    assert found(layout) == []
    bytecode.prepare(layout, "none")
    monkeypatch.undo()
    shutil.rmtree(layout.cache / BYTECODE, ignore_errors=True)
    (layout.cache / BYTECODE).write_text("no folder")
    bytecode.prepare(layout, RELEASE)


def test_it_goes_with_its_release_from_every_instance(layout):
    other = Layout(layout.prefix, "two")
    other.create()
    for one in (layout, other):
        bytecode.prepare(one, RELEASE)
        kept = of_releases(one) / "another.pyc"
        kept.touch()
        assert len(found(one)) == 3
    bytecode.forget(layout, RELEASE)
    for one in (layout, other):
        assert [path.name for path in found(one)] == ["another.pyc"]


def test_a_cache_of_another_account_is_neither_believed_nor_emptied(layout, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to give a folder away")
    bytecode.prepare(layout, RELEASE)
    before = below(layout.cache)
    assert before
    os.chown(layout.cache, 65534, 65534)
    victim = tmp_path / "victim" / RELEASE
    victim.mkdir(parents=True)
    place = of_releases(layout)
    place.rename(place.with_name("aside"))
    place.symlink_to(victim.parent)
    ran = tmp_path / "ran"
    source = f"open({str(ran)!r}, 'w')\n"
    for path in layout.cache.rglob("compileall.*.pyc"):
        code = importlib._bootstrap_external._code_to_hash_pyc(
            compile(source, "x", "exec"), b"\0" * 8, checked=False
        )
        path.write_bytes(code)
    bytecode.prepare(layout, RELEASE)
    assert not ran.exists()
    bytecode.forget(layout, RELEASE)
    assert victim.is_dir()
