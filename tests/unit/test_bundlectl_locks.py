"""Locks lie in folders of other accounts, too."""

import os
import subprocess
import sys

import pytest

from bundlectl import locks
from bundlectl.layout import Layout
from manifests.errors import FilesystemError, UsageError
from tests.support.mounts import needs_root


def hold(path):
    return locks.held(path, "busy", "wait")


def test_only_one_holds_it(tmp_path):
    with hold(tmp_path / "lock"), pytest.raises(UsageError, match="busy"), hold(tmp_path / "lock"):
        pass
    with hold(tmp_path / "lock"):
        pass


@pytest.mark.parametrize("target", ["secret", "nowhere"])
def test_no_link_is_followed(tmp_path, target):
    (tmp_path / "secret").write_text("untouched")
    (tmp_path / "lock").symlink_to(tmp_path / target)
    with pytest.raises(FilesystemError, match="a link lies in the place of a lock"):
        hold(tmp_path / "lock").__enter__()
    assert (tmp_path / "secret").read_text() == "untouched"
    assert not (tmp_path / "nowhere").exists()


def test_nothing_is_cut_off(tmp_path):
    (tmp_path / "lock").write_text("kept")
    with hold(tmp_path / "lock"):
        pass
    assert (tmp_path / "lock").read_text() == "kept"


def test_a_pipe_does_not_hold_us_up(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with hold(tmp_path / "lock"):
        pass


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(FilesystemError, match="missing/lock"):
        hold(tmp_path / "missing/lock").__enter__()


@needs_root
def test_what_root_has_made_another_account_can_hold(tmp_path):
    with hold(tmp_path / "lock"):
        pass
    tmp_path.chmod(0o755)
    code = "import os, sys; from pathlib import Path; from bundlectl import locks; os.setuid(1)\n"
    code += "with locks.held(Path(sys.argv[1]), '', ''): print('held')"
    handle = os.open(tmp_path, os.O_PATH)  # above it are folders that others can't enter
    words = [sys.executable, "-c", code, f"/proc/self/fd/{handle}/lock"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, pass_fds=[handle])
    assert done.stdout == "held\n", done.stderr


def test_a_keeper_does_not_follow_it_either(tmp_path):
    layout = Layout(tmp_path / "host")
    layout.create()
    (tmp_path / "secret").write_text("untouched")
    (layout.run / "keeping.lock").symlink_to(tmp_path / "secret")
    words = [sys.executable, "-m", "bundlectl.keep", str(layout.prefix), "release"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == FilesystemError.exit_code
    assert "a link lies in the place" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "secret").read_text() == "untouched"
