"""What CUDA and nvidia-smi say, by stand-ins on scratch paths."""

import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import nvidialog
from bundlectl.host import cuda
from bundlectl.host.accelerator import read_accelerator
from bundlectl.nvidialog import Details, Holder
from tests.support.mounts import needs_root
from tests.support.nvidia import CSV, described, libcuda, smi

ENVIRON = {"PATH": os.defpath}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """One stand-in for all codes: it returns what a variable says."""
    folder = tmp_path_factory.mktemp("driver")
    init = "extern char *getenv(const char *); extern int atoi(const char *);"
    init += ' char *code = getenv("CODE"); if (!code) return 0;'
    init += " if (code[0] == 'c') *(volatile int *)0 = 0; if (code[0] == 'h') for (;;);"
    return libcuda(folder / "libcuda.so.580.65.06", init + " return atoi(code);", devices=2)


@pytest.mark.parametrize("code", [803, 804, 999, 100])
def test_what_cuinit_says(library, code):
    found = cuda.ask({**ENVIRON, "CODE": str(code)}, str(library))
    assert found == cuda.Cuda(code, str(library), 13000, 0)


def test_a_healthy_driver_and_the_release_of_its_library(library):
    """Found as the loader finds it, and named by what the link leads to."""
    found = cuda.ask({**ENVIRON, "LD_LIBRARY_PATH": str(library.parent)})
    assert found == cuda.Cuda(0, str(library), 13000, 2)
    assert found.release == "580.65.06"


def test_a_driver_that_crashes_or_hangs(library):
    found = cuda.ask({**ENVIRON, "CODE": "crash"}, str(library))
    assert found.problem == "the process that called cuInit ended with signal 11"
    begun = time.monotonic()
    found = cuda.ask({**ENVIRON, "CODE": "hang"}, str(library), patience=1)
    assert found.problem == "cuInit did not return within 1 seconds"
    assert time.monotonic() - begun < 10


def test_no_library(tmp_path):
    assert "cannot open shared object" in cuda.ask(ENVIRON, "libcuda-none.so.1").problem
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    assert "file too short" in cuda.ask(ENVIRON, str(tmp_path / "libcuda.so.1")).problem


@pytest.mark.parametrize("output", ["", "no JSON", '{"code": 0, "odd": 1}', "[]", "3"])
def test_an_answer_that_is_none(output):
    assert cuda.parse(output).problem


def test_what_a_library_prints_before_the_answer():
    assert cuda.parse('loading\n{"code": 803}\n').code == 803


def test_a_healthy_gpu():
    assert nvidialog.parse(described()) == (
        Details("GPU-8932f937", "NVIDIA H200", link_width=16, link_most=16),
    )


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"sram": "2", "dram": "3"}, "uncorrected", 5),
        ({"sram": "N/A"}, "uncorrected", 0),
        ({"pending": "Yes"}, "remapping", "pending"),
        ({"failure": "Yes", "pending": "Yes"}, "remapping", "failed"),
        ({"mig": "Enabled"}, "sliced", True),
        ({"instances": "<mig_device/><mig_device/>"}, "slices", 2),
        ({"persistence": "Disabled"}, "persistent", False),
        ({"mode": "Prohibited"}, "compute_mode", "Prohibited"),
        ({"width": "8x"}, "link_width", 8),
        ({"thermal": "Active"}, "slowed", ("thermal",)),
        ({"fabric": "In Progress"}, "fabric", "In Progress"),
        ({"licence": "Unlicensed (Unrestricted)"}, "unlicensed", True),
        (
            {
                "processes": "<process_info><pid>7</pid><process_name>/usr/bin/python3"
                "</process_name><used_memory>512 MiB</used_memory></process_info>"
            },
            "holders",
            (Holder(7, "python3", 512 << 20),),
        ),
    ],
)
def test_what_is_wrong_with_a_gpu(changes, name, value):
    (found,) = nvidialog.parse(described(**changes))
    assert getattr(found, name) == value


def test_older_drivers():
    text = """<nvidia_smi_log><gpu id="0000:3B:00.0"><product_name>Tesla V100</product_name>
      <clocks_throttle_reasons><clocks_throttle_reason_hw_power_brake_slowdown>Active
      </clocks_throttle_reason_hw_power_brake_slowdown></clocks_throttle_reasons>
      <ecc_errors><volatile><double_bit><total>4</total></double_bit></volatile></ecc_errors>
      <retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>
      </gpu></nvidia_smi_log>"""
    (found,) = nvidialog.parse(text)
    assert (found.slowed, found.uncorrected) == (("power brake",), 4)
    assert found.remapping == "pending"


@given(st.text())
def test_any_other_text_describes_no_gpu(text):
    assert nvidialog.parse(text) == ()


def test_the_tools_complaint_is_kept(tmp_path):
    """In whatever language it is."""
    complaint = "无法与驱动通信 Driver/library version mismatch"
    smi(tmp_path, csv=complaint, status=18)
    found = read_accelerator({"PATH": f"{tmp_path}:{os.defpath}"}, (), ask=True)
    assert found.tool == f"nvidia-smi failed with status 18: {complaint}"
    assert (found.gpus, found.details, found.linked) == ((), (), None)


def test_only_the_gpus_that_the_server_sees_are_described(tmp_path):
    smi(tmp_path, csv=f"{CSV}\n{CSV.replace('GPU-8932f937', 'GPU-2')}\n")
    environ = {"PATH": f"{tmp_path}:{os.defpath}"}
    assert [one.name for one in read_accelerator(environ, (), ask=True).details] == ["NVIDIA H200"]
    environ["CUDA_VISIBLE_DEVICES"] = "1"
    assert read_accelerator(environ, (), ask=True).details == ()
    assert read_accelerator(environ, (), ask=True, details=False).gpus[0].uuid == "GPU-2"


#: Gives the stops and warnings about the driver in a namespace that has all of NVIDIA's parts.
_PREFLIGHT = """
import json, sys
from pathlib import Path
from bundlectl import host, preflight
found = preflight.examine(
    preflight.Needs(gpus=("sm_90",), driver="525.60.13"),
    host.probe(Path(sys.argv[1]), gpus=True),
    checks=[one for one in preflight.CHECKS if one.level == "stop"],
)
print(json.dumps({one.name: one.line() for one in found if not one.passed}))
"""


_NO_NODES = "rm -r /dev/nvidia*"
_MAKES_UVM = """
extern int mknod(const char *, unsigned, unsigned long);
mknod("/dev/nvidia-uvm", 0020666, 0x103);
"""
_MAKES_NODES = """
{{
  for node in nvidiactl nvidia0; do mknod /dev/$node c 1 3; done
  [ -e /proc/driver/nvidia/version ] || cp -r '{}/nvidia' /proc/driver/
}} 2>/dev/null
"""


@needs_root
@pytest.mark.parametrize(
    ("release", "code", "boot", "expected"),
    [
        ("580.65.06", 0, "", {}),
        ("570.10", 803, "", {"driver-library": "570.10", "cuda": "803"}),
        ("580.65.06", 999, "", {"cuda": "nvidia-uvm"}),
        ("580.65.06", 0, _NO_NODES, {}),
        ("580.65.06", 0, f"{_NO_NODES}; rm -r /proc/driver/nvidia", {}),
    ],
    ids=["healthy", "other-library", "fails", "no-nodes-yet", "not-loaded-yet"],
)
def test_a_whole_driver_on_scratch_paths(tmp_path, release, code, boot, expected):
    """Device nodes, kernel module, library and tool: all of them seen as on a real host.

    After a boot the first program that asks has the module loaded and the nodes made, as
    nvidia-modprobe does. Root without its privilege over modes is an account as any other: it can't
    write nvidia-caps, and need not.
    """
    libcuda(tmp_path / f"lib/libcuda.so.{release}", f"{_MAKES_UVM} return {code};")
    tool = smi(tmp_path / "bin")
    tool.write_text(tool.read_text().replace("\n", _MAKES_NODES.format(tmp_path), 1))
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    )
    script = f"""
mkdir {tmp_path}/dev {tmp_path}/work {tmp_path}/driver
cp -r {tmp_path}/nvidia {tmp_path}/driver/
mount --bind {tmp_path}/driver /proc/driver
folder=/usr/lib/x86_64-linux-gnu
mount -t overlay -o lowerdir={tmp_path}/lib:$folder overlay $folder
mount -t tmpfs dev {tmp_path}/dev
for node in null zero random urandom; do
  : >{tmp_path}/dev/$node; mount --bind /dev/$node {tmp_path}/dev/$node
done
for node in nvidiactl nvidia0 nvidia-uvm; do mknod {tmp_path}/dev/$node c 1 3; done
mkdir {tmp_path}/dev/shm
mkdir {tmp_path}/dev/nvidia-caps
mknod -m 400 {tmp_path}/dev/nvidia-caps/nvidia-cap1 c 1 3
mount --rbind {tmp_path}/dev /dev
{boot}
PATH={tmp_path}/bin:$PATH exec setpriv --bounding-set=-dac_override "$PYTHON" -c "$CODE" {tmp_path}
"""
    environ = {
        **os.environ,
        "PYTHON": sys.executable,
        "CODE": _PREFLIGHT,
        "PYTHONPATH": ":".join(item for item in sys.path if item),
    }
    command = ["unshare", "--mount", "sh", "-ec", script]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "mknod" in done.stderr:
        pytest.skip(f"this machine does not let root mount: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(expected)
    assert all(text in found[name] for name, text in expected.items())
