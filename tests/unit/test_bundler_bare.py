"""What a rehearsal's namespace lacks, and that nothing changes outside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundler import bare


def test_tools_are_found_by_their_names_and_shared_programs_are_left(tmp_path):
    (tmp_path / "x86_64-linux-gnu-gcc-13").touch()
    (tmp_path / "gcc").symlink_to("x86_64-linux-gnu-gcc-13")
    (tmp_path / "busybox").touch()
    (tmp_path / "as").symlink_to("busybox")
    (tmp_path / "cat").touch()
    found = set(bare.tools([tmp_path, tmp_path / "not there"]))
    assert found == {tmp_path / "x86_64-linux-gnu-gcc-13"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
def test_in_the_namespace_no_compiler_is_found_and_loopback_is_up():
    seen = "command -v cc gcc as ld make; cat /sys/class/net/lo/flags; ls /sys/class/net"
    words = ["unshare", "--net", "--mount", "--", sys.executable, "-I", bare.__file__]
    # sysfs shows the network namespace of whoever mounted it.
    again = ["sh", "-c", f"mount -t sysfs none /sys && {{ {seen}; }}"]
    before = [path.stat().st_size for path in bare.tools(map(Path, bare.FOLDERS))]
    done = subprocess.run([*words, *again], capture_output=True, text=True, check=True)
    flags, names = done.stdout.split()
    assert int(flags, 16) & 1
    assert names == "lo"
    assert [path.stat().st_size for path in bare.tools(map(Path, bare.FOLDERS))] == before
