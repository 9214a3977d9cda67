"""Installing reads each byte of the medium once and writes each installed byte once.

Counted by the kernel: `rchar` and `wchar` of /proc/self/io are what a process asked read(2) and
write(2) for (proc(5)). The memory that it took is `VmHWM` of /proc/self/status.
"""

import json
import os
import random
import subprocess
import sys

import pytest

from tests.support.simulator import ENVIRONMENT, Simulator
from tests.support.small import environment

MIB = 1 << 20
#: Reads a small bundle's installation of bundlectl, journals, receipts, /proc: no more than this.
BESIDE = 2 * MIB
#: The most memory that installing takes, whatever the bundle: Python, and full queues of chunks.
BOUND = 96_000_000
_RUN = """
import json, sys
from bundlectl import mediacommands  # loaded at its first use, which is not what is measured
from bundlectl.cli import main

def counted():
    pairs = (line.split(": ") for line in open("/proc/self/io"))
    return {name: int(value) for name, value in pairs}

before = counted()
status = main(sys.argv[1:])
after = counted()
(peak,) = (int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(json.dumps([status, after["rchar"] - before["rchar"],
                             after["wchar"] - before["wchar"], peak * 1024]) + "\\n")
"""


def measured(folder, digest, prefix):
    """Bytes read, bytes written and the peak of memory of one installation."""
    words = ["install", "--no-start", "--ignore", "port", "--quiet", "--media", str(folder)]
    words += ["--manifest", digest, "--prefix", str(prefix)]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    status, read, written, peak = json.loads(done.stderr.splitlines()[-1])
    assert status == 0, done.stderr
    return read, written, peak


def big(mebibytes):
    """A tiny bundle with as much in its model, and as much in its environment, both of noise."""
    noise = random.Random(mebibytes)
    return Simulator(
        model={"config.json": b"{}", "model.safetensors": noise.randbytes(mebibytes * MIB)},
        environment={**ENVIRONMENT, "big.bin": noise.randbytes(mebibytes * MIB)},
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Size → what was measured, size of the archive, and bytes that were installed."""
    found = {}
    for mebibytes in (16, 64):
        root = tmp_path_factory.mktemp("one-pass")
        folder, digest = big(mebibytes).write(root / "media")
        prefix = root / "prefix"
        figures = measured(folder, digest, prefix)
        archive = sum(path.stat().st_size for path in folder.glob("*.tar*"))
        size = sum(p.lstat().st_size for p in prefix.rglob("*") if p.is_file())
        found[mebibytes] = (*figures, archive, size)
    return found


@pytest.mark.parametrize("mebibytes", [16, 64])
def test_each_byte_is_read_once_and_written_once(installed, mebibytes):
    read, written, _, archive, size = installed[mebibytes]
    assert archive <= read <= archive + BESIDE
    assert size <= written <= size + BESIDE


def test_memory_does_not_grow_with_the_bundle(installed):
    """How much of the queues is in use depends on the disk; what they may hold is bounded."""
    for _read, _written, peak, archive, _size in installed.values():
        assert peak < BOUND, f"{archive} bytes of archive"
    assert installed[64][3] > BOUND


def test_the_kernel_counts(tmp_path):
    """The figures above mean something: a second read would be seen."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    code = "import sys; before = open('/proc/self/io').read(); open(sys.argv[1], 'rb').read(); "
    code += "print(before + open('/proc/self/io').read())"
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    counts = [int(line.split()[1]) for line in done.stdout.splitlines() if "rchar" in line]
    assert MIB <= counts[1] - counts[0] < 2 * MIB
