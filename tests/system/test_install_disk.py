"""Full disks, and what a re-run does after room was made."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.mounts import needs_root, tmpfs
from tests.support.small import control, free_port, install
from tests.system.conftest import end_servers

pytestmark = needs_root
#: For installs that start nothing: the default port may be taken on a developer's machine.
PORT = ("--port", str(free_port()))


@pytest.fixture
def disk(tmp_path):
    with tmpfs(tmp_path / "disk", "size=400m") as folder:
        yield folder
        end_servers(folder)


def free(folder) -> int:
    numbers = os.statvfs(folder)
    return numbers.f_bavail * numbers.f_frsize


def fill(folder, leave: int) -> None:
    with (folder / "filler").open("wb") as handle:
        os.posix_fallocate(handle.fileno(), 0, free(folder) - leave)


def eat(folder) -> None:
    """Take what is left while somebody else writes."""
    with (folder / "filler").open("wb", buffering=0) as handle, contextlib.suppress(OSError):
        while True:
            handle.write(bytes(1 << 20))


def test_space_is_compared_to_the_byte_before_the_first_one(small_bundle, disk):
    prefix = disk / "host"
    fill(disk, 40 << 20)
    done = install(small_bundle, "--prefix", str(prefix), "--no-start", *PORT)
    assert done.returncode == ExitCode.FILESYSTEM
    assert not prefix.exists()
    found = re.search(r"(\d+) bytes free on (\S+).*needed: (\d+) bytes", done.stderr)
    missing = re.search(r"free (\d+) bytes there", done.stderr)
    assert int(found[1]) == 40 << 20
    assert found[2] == str(disk)
    assert int(missing[1]) == int(found[3]) - int(found[1])

    page = os.sysconf("SC_PAGE_SIZE")
    enough = -(-int(found[3]) // page) * page
    (disk / "filler").unlink()
    fill(disk, enough - page)
    assert install(small_bundle, "--prefix", str(prefix), *PORT).returncode == ExitCode.FILESYSTEM
    (disk / "filler").unlink()
    fill(disk, enough)
    done = install(small_bundle, "--prefix", str(prefix), "--no-start", *PORT)
    assert done.returncode == 0, done.stderr
    assert free(disk) < 4 << 20, "the check asks for far more than is needed"


@pytest.mark.e2e
def test_a_disk_that_fills_up_half_way(small_bundle, newer_bundle, disk):
    prefix = disk / "host"
    done = install(small_bundle, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr

    script = ["sh", str(newer_bundle / "install.sh"), "--prefix", str(prefix)]
    clean = {"PATH": os.environ["PATH"]}
    running = subprocess.Popen(script, env=clean, stdout=-1, stderr=-1, text=True)
    deadline = time.monotonic() + 60
    while not list(prefix.glob("releases/*.partial/env/lib")) and time.monotonic() < deadline:
        time.sleep(0.005)
    running.send_signal(signal.SIGSTOP)  # else it may be done before the disk is full
    eat(disk)
    running.send_signal(signal.SIGCONT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == ExitCode.FILESYSTEM, told
    assert "No space left on device" in told
    assert "mend: free some space" in told
    assert "Traceback" not in told
    assert control(prefix, "ask", "Hello").returncode == 0

    verified = {
        path: path.stat().st_ino
        for path in prefix.glob("releases/*.partial/runtime/**/*")
        if path.is_file()
    }
    assert verified, "the runtime comes first and was complete"
    (disk / "filler").unlink()
    done = install(newer_bundle, "--prefix", str(prefix))
    assert done.returncode == 0, done.stderr
    for path, inode in verified.items():
        final = str(path).replace(".partial", "")
        assert Path(final).stat().st_ino == inode, "a verified member was written again"
    assert control(prefix, "ask", "Hello").returncode == 0
    assert control(prefix, "audit").returncode == 0


def test_no_room_for_the_runtime_itself(small_bundle, tmp_path):
    with tmpfs(tmp_path / "tiny", "size=1m") as tiny:
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tiny), "HOME": str(tiny)}
        shell = ("unshare", "-m", "sh", "-c")
        hide = "for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=1m,noexec t $d; done"
        # The medium may itself lie below /tmp.
        copy = f"mount --bind '{small_bundle}' /mnt && {hide} && exec sh /mnt/install.sh audit"
        done = subprocess.run([*shell, copy], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.FILESYSTEM, done.stderr
    assert "no folder to start from" in done.stderr
    assert "set TMPDIR" in done.stderr


def test_noexec_is_passed_by(small_bundle, tmp_path):
    with tmpfs(tmp_path / "tmp", "noexec") as folder:
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), "HOME": "/"}
        words = ("preflight", "--prefix", str(tmp_path / "host"), *PORT)
        done = install(small_bundle, *words, env=env)
        assert done.returncode == 0, done.stderr
        assert list(folder.iterdir()) == []

        done = install(small_bundle, "--prefix", str(folder / "host"), *PORT)
        assert done.returncode == ExitCode.TARGET
        assert "noexec" in done.stderr
        assert "remount,exec" in done.stderr
