"""The keeper as a process: what it exits with, and what it says last."""

import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from bundlectl import keep
from bundlectl.control import SOCKET, Link, Lost
from bundlectl.keeper import Keeper
from bundlectl.layout import Layout
from bundlectl.sockets import socket_path
from manifests.errors import TargetError
from manifests.exitcodes import ExitCode
from tests.support.kept import until
from tests.support.small import environment


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "prefix")
    layout.create()
    return layout


def listens(layout):
    try:
        Link(socket_path(layout, SOCKET)).close()
    except Lost:
        return False
    return True


def words(layout):
    return [sys.executable, "-m", "bundlectl.keep", str(layout.prefix), "r0"]


def test_a_terminal_that_has_left_is_no_reason_to_stay(layout):
    ours, theirs = os.openpty()
    child = subprocess.Popen(words(layout), env=environment(), stderr=theirs)
    os.close(theirs)
    until(lambda: listens(layout))
    os.close(ours)
    child.send_signal(signal.SIGHUP)
    assert child.wait(20) == ExitCode.OK


def test_a_second_keeper_says_so_and_harms_no_file(layout):
    other = layout.run / "keeping.lock"
    other.write_text("kept")
    with other.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = subprocess.run(words(layout), env=environment(), capture_output=True, text=True)
        assert done.returncode == ExitCode.USAGE
        assert "the server runs already" in done.stderr
        assert "Traceback" not in done.stderr
    assert other.read_text() == "kept"
    other.rename(layout.run / "elsewhere")
    other.symlink_to("elsewhere")
    done = subprocess.run(words(layout), env=environment(), capture_output=True, text=True)
    assert done.returncode == ExitCode.FILESYSTEM
    assert (layout.run / "elsewhere").read_text() == "kept"


def test_a_defect_of_ours_has_an_exit_status_of_its_own(layout):
    code = (
        "import sys; from bundlectl import keep, keeper; "
        "keeper.environment.prepare = lambda layout: 1 / 0; sys.exit(keep.main())"
    )
    command = [sys.executable, "-c", code, str(layout.prefix), "r0"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == ExitCode.SERVER
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_work_in_the_foreground_may_take_its_time(layout, monkeypatch):
    monkeypatch.setattr(Keeper, "unused", 0.2)

    def work():
        until(lambda: listens(layout))
        time.sleep(0.8)
        assert listens(layout)
        raise TargetError("it was done, and came to nothing")

    with pytest.raises(TargetError, match="came to nothing"):
        keep.attend(layout, "r0", len, work)
