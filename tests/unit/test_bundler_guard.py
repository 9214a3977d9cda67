"""The guard sees each fault that is planted in a real environment."""

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bundler import guard
from manifests.errors import IntegrityError
from tests.support import conda_parts as parts

SITE = f"lib/python{parts.SERIES}/site-packages"


@cache
def _good() -> Path:
    prefix = parts.make(parts.scratch() / "guarded" / "env", parts.scratch() / "guarded" / "cache")
    parts.pip_install(prefix / "bin" / "python", parts.wheel(parts.scratch()))
    return prefix


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return Path(shutil.copytree(_good(), tmp_path / "env", symlinks=True))


def _findings(prefix: Path) -> tuple[str, ...]:
    with pytest.raises(IntegrityError) as caught:
        guard.check(prefix)
    return caught.value.findings


def test_a_fresh_environment_passes(prefix: Path) -> None:
    guard.check(prefix)


def _write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _editable(prefix: Path) -> None:
    url = {"url": "file:///src", "dir_info": {"editable": True}}
    _write(prefix / SITE / "hello-1.0.dist-info/direct_url.json", json.dumps(url))


def _outgoing(prefix: Path) -> None:
    _write(prefix.parent / "outside")
    (prefix / "lib/out").symlink_to("../../outside")


def _overwrite(prefix: Path) -> None:
    (prefix / f"lib/python{parts.SERIES}/this.py").write_text("print('other')\n")


def _overwrite_relocated(prefix: Path) -> None:
    (data,) = (prefix / f"lib/python{parts.SERIES}").glob("_sysconfigdata*.py")
    data.write_text(data.read_text() + "# changed\n")


FAULTS: list[tuple[str, Callable[[Path], object], str]] = [
    ("overwritten", _overwrite, "this.py: altered since conda package python"),
    ("overwritten, relocated", _overwrite_relocated, ".py: altered since conda package python"),
    (
        "deleted",
        lambda p: (p / "ssl/cacert.pem").unlink(),
        "ssl/cacert.pem: missing; conda package",
    ),
    ("deleted link", lambda p: (p / "bin/python3").unlink(), "bin/python3: missing"),
    ("editable", _editable, "direct_url.json: an editable install"),
    (
        "installed from a folder",
        lambda p: _write(p / SITE / "x.dist-info/direct_url.json", '{"url": "file:///home/me/x"}'),
        "file:///home/me/x",
    ),
    ("broken record", lambda p: _write(p / SITE / "x.dist-info/direct_url.json", "{"), "JSON"),
    ("egg-link", lambda p: _write(p / SITE / "x.egg-link"), "x.egg-link: an editable install"),
    ("pth outside", lambda p: _write(p / SITE / "x.pth", "../../../../src\n"), "which is outside"),
    ("pth absolute", lambda p: _write(p / SITE / "x.pth", "/srv/src\n"), "/srv/src"),
    ("pth of the builder", lambda p: _write(p / SITE / "x.pth", f"{p}/lib\n"), "was built in"),
    (
        "pth code with the build path",
        lambda p: _write(p / SITE / "x.pth", f"import sys; sys.path.append({str(p)!r})\n"),
        "was built in",
    ),
    ("absolute link", lambda p: (p / "lib/abs").symlink_to("/etc/passwd"), "absolute path /etc"),
    ("dangling link", lambda p: (p / "lib/gone").symlink_to("nothing"), "which is not there"),
    ("outgoing link", _outgoing, "leaves the environment"),
    ("bytecode", lambda p: _write(p / SITE / "__pycache__/hello.pyc"), "hello.pyc: bytecode"),
    ("fifo", lambda p: os.mkfifo(p / "lib/pipe"), "lib/pipe: a fifo"),
    ("setuid", lambda p: (p / SITE / "hello.py").chmod(0o4755), "setuid"),
    ("new line in a name", lambda p: _write(p / "lib/a\nb"), "not allowed"),
    ("name of other bytes", lambda p: _write(p / os.fsdecode(b"lib/\xff")), "not allowed"),
    ("case twins", lambda p: _write(p / SITE / "HELLO.py"), "only by case"),
]


@pytest.mark.parametrize(("plant", "finding"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_each_fault_is_found(prefix: Path, plant: Callable[[Path], object], finding: str) -> None:
    plant(prefix)

    (found,) = _findings(prefix)
    assert finding in found


def test_all_faults_are_reported_at_once(prefix: Path) -> None:
    _overwrite(prefix)
    _editable(prefix)
    _outgoing(prefix)

    assert len(_findings(prefix)) == 3


@pytest.mark.parametrize(
    "text", ["hello\n", "import sys\n", "# a comment\n", "\n", "../site-packages\n"]
)
def test_harmless_search_paths_pass(prefix: Path, text: str) -> None:
    _write(prefix / SITE / "x.pth", text)

    guard.check(prefix)


def test_bytecode_that_a_wheel_published_passes(prefix: Path) -> None:
    _write(prefix / SITE / "pkg/__pycache__/a.pyc")
    _write(prefix / SITE / "pkg-1.dist-info/RECORD", "pkg/__pycache__/a.pyc,sha256=x,0\n")
    _write(prefix / SITE / "hello/__pycache__/b.pyc")
    _write(prefix / SITE / "made-1.dist-info/RECORD", "hello/__pycache__/b.pyc,,\n")

    (found,) = _findings(prefix)
    assert found.startswith(f"{SITE}/hello/__pycache__/b.pyc")


def test_terminfo_may_have_case_twins(prefix: Path) -> None:
    _write(prefix / "share/terminfo/e/x")
    _write(prefix / "share/terminfo/E/x")

    guard.check(prefix)


def test_very_many_findings_are_cut(prefix: Path) -> None:
    for number in range(300):
        _write(prefix / SITE / f"{number}.pyc")

    findings = _findings(prefix)
    assert len(findings) == 201
    assert findings[-1] == "and 100 more"
