"""Accounts, modes and media of every kind."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from manifests.audit import audit
from manifests.exitcodes import ExitCode
from tests.support.mounts import mounted, needs_root
from tests.support.small import control, free_port, install
from tests.system.conftest import end_servers

CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def account(uid: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


@pytest.fixture
def homes():
    """A folder for each of two accounts, where both can come to."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        for uid in (123456, 123457):
            (root / str(uid)).mkdir()
            os.chown(root / str(uid), uid, uid)
        yield root
        end_servers(root)


@pytest.mark.parametrize("umask", ["077", "000"])
def test_modes_do_not_depend_on_the_umask(small_bundle, prefix, umask):
    shell = ("sh", "-c", f'umask {umask}; exec sh "$@"', "sh")
    words = ("--prefix", str(prefix), "--port", str(free_port()))
    done = install(small_bundle, *words, *(("--no-start",) if umask == "077" else ()), shell=shell)
    assert done.returncode == 0, done.stderr
    assert audit(prefix).intact
    control(prefix, "stop")
    for path in [prefix, *prefix.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert path.is_symlink() or not mode & 0o022, f"{path}: {mode:04o}"
    for name in ("releases", "models", "etc", "bin", "state"):
        assert stat.S_IMODE((prefix / name).stat().st_mode) == 0o755
    assert stat.S_IMODE((prefix / "etc/api-key").stat().st_mode) == 0o600
    assert stat.S_IMODE((prefix / "etc/serve.toml").stat().st_mode) == 0o600


@pytest.mark.e2e
@needs_root
def test_two_accounts_from_one_read_only_medium(open_media, homes, tmp_path):
    with mounted(homes / "medium", "--bind", str(open_media)) as medium:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(medium)], check=True)
        for uid in (123456, 123457):
            prefix = homes / str(uid) / "llm"
            words = ("--prefix", str(prefix), "--port", str(free_port()))
            done = install(medium, *words, shell=(*account(uid), "sh"), env=CLEAN)
            assert done.returncode == 0, done.stderr
            assert prefix.stat().st_uid == uid

    first = homes / "123456/llm"

    def other(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*account(123457), str(first / "bin/bundlectl"), *words]
        return subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=False)

    assert other("audit").returncode == 0, "what is installed may be read by all"
    seen = other("status")
    assert seen.returncode == ExitCode.FILESYSTEM
    assert "not visible to this account (run it as" in seen.stdout
    for words in (("stop",), ("start",), ("ask", "Hello"), ("logs",)):
        done = other(*words)
        assert done.returncode in (ExitCode.USAGE, ExitCode.FILESYSTEM), (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert "mend:" in done.stderr
    assert control(first, "ask", "Hello").returncode == 0


@needs_root
def test_a_folder_that_this_account_may_not_write(open_media, homes):
    words = ("--prefix", str(homes / "llm"), "--port", str(free_port()))
    done = install(open_media, *words, shell=(*account(123456), "sh"), env=CLEAN)
    assert done.returncode == ExitCode.FILESYSTEM
    assert f"{homes} can't be written by this account" in done.stderr


@needs_root
def test_the_default_folder_of_an_account(open_media, homes):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(homes / "123456")}
    words = ("--no-start", "--port", str(free_port()))
    done = install(open_media, *words, shell=(*account(123456), "sh"), env=env)
    assert done.returncode == 0, done.stderr
    prefix = homes / "123456/.local/share/vllm-bundle"
    assert audit(prefix).intact
    shutil.rmtree(prefix)
