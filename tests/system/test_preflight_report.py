"""preflight-report.sh on hosts of every kind. Only nvidia-smi is simulated, the shells are real."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from manifests import hostreport
from manifests.hostreport import MIB, HostGpu
from tests.support import roots
from tests.support.connected import refused, run
from tests.support.small import ROOT

SCRIPT = ROOT / "installer/preflight-report.sh"
TOOLS = "cat cut df grep head mv rm sed sleep sort tr uname uniq sha256sum printf"
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)
OPEN_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  "
    "(dvs-builder@U22-I3-AE18-23-3)  Tue Sep 23 10:11:16 UTC 2025\n"
)
INVALID = "echo 'Field \"compute_cap\" is not a valid field to query.'; echo; exit 2"
NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running."
)
MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.113"
)


def smi(new: str = "", old: str = "", listed: str = "", code: int = 0) -> str:
    """A stand-in for nvidia-smi: what it prints with and without compute_cap, and for -L."""
    return f"""#!/bin/sh
say() {{ printf '%s\\n' "$1"; exit {code}; }}
case "$*" in
  *compute_cap*) {new or INVALID} ;;
  *query-gpu*) {old} ;;
  -L) {listed or "exit 0"} ;;
esac
"""


def say(text: str) -> str:
    return f"say '{text.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'"


class Machine:
    """The files of a host that the script reads, and a way to run it there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("etc/os-release", 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="22.04"\n')
        self.write("proc/sys/kernel/osrelease", "5.15.0-105-generic\n")
        self.write("proc/meminfo", "MemTotal:       65970816 kB\nMemFree:  1 kB\n")
        flags = "flags\t\t: fpu sse2 avx2 avx512f avx512vl\n"
        self.write("proc/cpuinfo", "".join(f"processor\t: {n}\n{flags}\n" for n in range(4)))
        self.libc()
        (root / "opt").mkdir()

    def write(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def libc(self) -> None:
        place = self.root / "lib/x86_64-linux-gnu"
        place.mkdir(parents=True)
        (found,) = roots_libc()
        shutil.copy(found, place / "libc.so.6")

    def smi(self, text: str) -> None:
        self.write("usr/bin/nvidia-smi", text).chmod(0o755)

    def run(self, shell, *words, **env):
        path = {"PATH": "/usr/bin:/bin", **env}
        command = [*shell, str(SCRIPT), "--root", str(self.root), *words]
        done = subprocess.run(
            command, env=path, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        assert all(len(line) <= 72 for line in done.stdout.splitlines())
        assert len(done.stdout.splitlines()) <= 15
        return done.stdout

    def report(self, shell, *words, **env):
        found = hostreport.load(self.run(shell, *words, **env), "report")
        assert found.checked
        return found


def roots_libc() -> list[Path]:
    return [Path(os.path.realpath("/lib64/ld-linux-x86-64.so.2")).parent / "libc.so.6"]


@pytest.fixture(scope="session")
def applets(tmp_path_factory):
    """A folder of BusyBox's programs."""
    if shutil.which("busybox") is None:
        pytest.skip("this machine lacks busybox")
    folder = tmp_path_factory.mktemp("busybox")
    for name in roots.applets():
        (folder / name).symlink_to(str(shutil.which("busybox")))
    return folder


@pytest.fixture(params=["dash", "busybox", "posix"])
def shell(request):
    """The start of a command for each shell; BusyBox's with BusyBox's programs alone."""
    if request.param == "busybox":
        return ("env", f"PATH={request.getfixturevalue('applets')}", "ash")
    words = {"dash": ("dash",), "posix": ("bash", "--posix")}[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"this machine lacks {words[0]}")
    return words


@pytest.fixture
def ash(applets):
    """BusyBox's shell and programs: the poorest that there are."""
    return ("env", f"PATH={applets}", "ash")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "root")


def test_a_host_with_a_recent_driver(machine, shell):
    machine.write("proc/driver/nvidia/version", VERSION)
    row = "NVIDIA A10, 8.6, 23028, 535.104.05"
    machine.smi(smi(say(f"{row}\n{row}")))
    found = machine.report(shell)
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert replace(found, disks=()) == hostreport.HostReport(
        arch="x86_64",
        libc="glibc",
        libc_version=glibc,
        os="ubuntu 22.04",
        kernel="5.15.0-105-generic",
        driver="535.104.05",
        gpus=(HostGpu("NVIDIA A10", "8.6", 23028 * MIB, 2),),
        processors=4,
        cpu_flags=("avx2", "avx512f"),
        memory=64424 * MIB,
        checked=True,
    )
    assert [disk.folder for disk in found.disks] == ["/opt"]
    free = shutil.disk_usage(machine.root).free
    assert abs(found.disks[0].free - free) < 1 << 30


def test_both_forms_say_the_same_and_python_writes_the_same_text(machine, shell):
    machine.smi(smi(say("NVIDIA L40S, 8.9, 46068, 550.54")))
    found = machine.report(shell)
    data = machine.run(shell, "--json")
    same = {"disks": found.disks}
    assert replace(hostreport.load(data, "report"), **same) == found
    assert json.loads(data)["gpu"] == ["1 x NVIDIA L40S, 8.9, 46068 MiB"]
    assert hostreport.load(hostreport.dump(found).encode(), "again") == found


def test_an_open_kernel_module(machine, ash):
    machine.write("proc/driver/nvidia/version", OPEN_VERSION)
    machine.smi(smi(say("NVIDIA H200, 9.0, 143771, 580.95.05")))
    assert machine.report(ash).driver == "580.95.05"


def test_an_old_nvidia_smi_gives_names(machine, shell):
    machine.smi(smi(old=say("Tesla T4, 15109, 470.182.03")))
    found = machine.report(shell)
    assert found.gpus == (HostGpu("Tesla T4", "", 15109 * MIB),)
    assert found.driver == "470.182.03"
    assert found.notes == ()


def test_several_kinds_of_gpu(machine, shell):
    rows = ["NVIDIA A10, 8.6, 23028", "Tesla T4, 7.5, 15360", "NVIDIA A10, 8.6, 23028"]
    machine.smi(smi(say("\n".join(f"{row}, 550.54.15" for row in rows))))
    assert machine.report(shell).gpus == (
        HostGpu("NVIDIA A10", "8.6", 23028 * MIB, 2),
        HostGpu("Tesla T4", "7.5", 15360 * MIB),
    )


def test_more_kinds_than_fit(machine, ash):
    rows = [f"NVIDIA RTX {n}000 {'x' * 60}, 8.6, 23028, 550.54.15" for n in range(1, 7)]
    machine.smi(smi(say("\n".join(rows))))
    found = machine.report(ash)
    assert len(found.gpus) == 4
    assert "2 more kinds of GPU are not listed" in found.notes


def test_memory_that_nvidia_smi_does_not_know(machine, ash):
    machine.smi(smi(say("NVIDIA GB10, 12.1, [N/A], 580.95.05")))
    assert machine.report(ash).gpus == (HostGpu("NVIDIA GB10", "12.1"),)


def test_slices_of_gpus(machine, shell):
    machine.smi(
        smi(
            new=say(
                "NVIDIA A100-SXM4-40GB, 8.0, 40960, 535.104.05\nNVIDIA A10, 8.6, 23028, 535.104.05"
            ),
            listed=say(
                "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)\n"
                "  MIG 3g.20gb     Device  0: (UUID: MIG-4ce2ba06-6fbd-5fbb-be4b-e1d4b4b7c1a9)\n"
                "  MIG 1g.5gb      Device  1: (UUID: MIG-6f0b7b1c-3e2a-5a40-9b1e-7d0f6f3a2b11)\n"
                "  MIG 1g.5gb      Device  2: (UUID: MIG-9a3c5d7e-1b2f-5c60-8d9e-0a1b2c3d4e5f)\n"
                "GPU 1: NVIDIA A10 (UUID: GPU-11111111-2222-3333-4444-555555555555)"
            ),
        )
    )
    data = machine.run(shell)
    assert hostreport.load(data, "report").gpus == (
        HostGpu("NVIDIA A10", "8.6", 23028 * MIB),
        HostGpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", 5120 * MIB, 2),
        HostGpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "8.0", 20480 * MIB),
    )
    assert b"UUID" not in data


@pytest.mark.parametrize(
    ("text", "code", "note"),
    [
        (NOT_LOADED, 9, "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate"),
        (MISMATCH, 18, "nvidia-smi: Failed to initialize NVML: Driver/library version"),
        ("No devices were found", 6, "nvidia-smi: No devices were found"),
        ("", 139, "nvidia-smi: ended with status 139"),
    ],
)
def test_a_failing_nvidia_smi(machine, ash, text, code, note):
    machine.smi(smi(say(text), say(text), say(text), code))
    found = machine.report(ash)
    assert (found.gpus, found.gpus_unknown) == ((), True)
    assert found.notes[0].startswith(note)


def test_a_failing_nvidia_smi_where_the_kernel_knows_the_gpu(machine, ash):
    machine.write("proc/driver/nvidia/version", VERSION)
    machine.write(
        "proc/driver/nvidia/gpus/0000:3b:00.0/information",
        "Model: \t\t NVIDIA A10\nIRQ:   \t\t 77\nGPU UUID: \t GPU-5c89852c-d268-c3f3\n",
    )
    machine.smi(smi(say(MISMATCH), say(MISMATCH), code=18))
    found = machine.report(ash)
    assert found.gpus == (HostGpu("NVIDIA A10"),)
    assert found.driver == "535.104.05"
    assert "NVML" in found.notes[0]


def test_one_gpu_that_fell_off_the_bus(machine, ash):
    machine.smi(
        smi(
            say(
                "Unable to determine the device handle for GPU1: Unknown Error\n"
                "NVIDIA A10, 8.6, 23028, 535.104.05"
            )
        )
    )
    found = machine.report(ash)
    assert found.gpus == (HostGpu("NVIDIA A10", "8.6", 23028 * MIB),)
    assert found.notes == ("nvidia-smi: Unable to determine the device handle for GPU1: Unknow",)


def test_an_nvidia_smi_that_hangs(machine, shell, tmp_path):
    machine.write("proc/driver/nvidia/version", VERSION)
    mark = tmp_path / "pid"
    machine.smi(f"#!/bin/sh\necho $$ >{mark}\ntrap '' TERM\nexec sleep 100\n")
    started = time.monotonic()
    found = machine.report(shell, "--timeout", "1")
    assert time.monotonic() - started < 10
    assert found.notes == ("nvidia-smi: no answer in 1 s",)
    assert (found.driver, found.gpus_unknown) == ("535.104.05", True)
    assert gone(int(mark.read_text()))


def gone(pid: int) -> bool:
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_ctrl_c_while_nvidia_smi_hangs_leaves_no_folder(machine, tmp_path):
    machine.smi("#!/bin/sh\nexec sleep 3\n")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = subprocess.Popen(
        ["sh", str(SCRIPT), "--root", str(machine.root)],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
    )
    while not list(scratch.glob("*/pid")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143
    assert list(scratch.iterdir()) == []


def test_no_nvidia_at_all(machine, ash):
    found = machine.report(ash)
    assert (found.gpus, found.gpus_unknown, found.driver) == ((), False, "")
    assert found.notes == ()


def test_a_card_without_a_driver(machine, ash):
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2236")):
        machine.write(f"sys/bus/pci/devices/0000:3b:00.0/{name}", f"{text}\n")
    found = machine.report(ash)
    assert found.gpus_unknown
    assert found.notes == ("PCI: 10de:2236, and no driver of NVIDIA's is loaded",)


def test_a_driver_without_nvidia_smi(machine, ash):
    machine.write("proc/driver/nvidia/version", VERSION)
    machine.write("proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t\t NVIDIA A10\n")
    found = machine.report(ash)
    assert found.gpus == (HostGpu("NVIDIA A10"),)
    assert found.notes == ("nvidia-smi: not found",)


def test_wsl(machine, ash):
    machine.write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    place = machine.write(
        "usr/lib/wsl/lib/nvidia-smi", smi(say("NVIDIA RTX A2000, 8.6, 6138, 551.61"))
    )
    place.chmod(0o755)
    found = machine.report(ash)
    assert found.driver == "551.61"
    assert found.gpus == (HostGpu("NVIDIA RTX A2000", "8.6", 6138 * MIB),)
    assert "WSL" in found.notes[0]


def test_musl(machine, ash):
    shutil.rmtree(machine.root / "lib")
    machine.write("lib/ld-musl-x86_64.so.1", "")
    machine.write("etc/os-release", "ID=alpine\nVERSION_ID=3.20.3\n")
    found = machine.report(ash)
    assert (found.libc, found.os) == ("musl", "alpine 3.20.3")


def test_nothing_to_read(tmp_path, ash):
    empty = Machine.__new__(Machine)
    empty.root = tmp_path / "empty"
    empty.root.mkdir()
    found = empty.report(ash)
    assert (found.libc, found.os, found.memory, found.processors) == ("unknown", "", 0, 0)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("sys/fs/cgroup/box/memory.max", "0::/box/inner"),
        ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9:memory:/box"),
    ],
)
def test_a_control_group_s_limit(machine, shell, path, group):
    machine.write("proc/self/cgroup", f"{group}\n")
    machine.write(path, f"{8 << 30}\n")
    machine.write("sys/fs/cgroup/memory.max", "max\n")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    found = machine.report(shell)
    assert found.memory == 8 << 30
    assert found.notes == ("memory: a control group's limit",)


def test_a_chinese_system(machine, ash):
    machine.write(
        "etc/os-release",
        'NAME="Kylin Linux Advanced Server"\nVERSION="V10 (高级)"\nID="kylin"\nVERSION_ID="V10"\n',
    )
    machine.smi(smi(say("NVIDIA A10, 8.6, 23028, 535.104.05\n警告 温度过高")))
    found = machine.report(ash, LANG="zh_CN.UTF-8", LC_ALL="zh_CN.UTF-8", LANGUAGE="zh_CN:zh")
    assert found.os == "kylin V10"
    assert found.gpus == (HostGpu("NVIDIA A10", "8.6", 23028 * MIB),)


def test_values_that_would_break_json(machine, shell):
    machine.write("etc/os-release", "ID=we\"ird\\'$(id)`id`\n")
    machine.smi(smi(say('NVIDIA "A10" \\ <x>, 8.6, 23028, 535.104.05')))
    assert hostreport.load(machine.run(shell, "--json"), "report").gpus[0].name == "NVIDIA A10 x"


def test_variables_of_the_caller_change_nothing(machine, shell):
    names = "root json patience scratch lines notes disks limited kinds driver smi libc status"
    clean = machine.report(shell)
    assert (
        replace(machine.report(shell, **dict.fromkeys(names.split(), "/x")), disks=clean.disks)
        == clean
    )


def test_this_machine_itself(shell):
    done = subprocess.run(
        [*shell, str(SCRIPT)], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    found = hostreport.load(done.stdout, "report")
    assert found.libc_version == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert found.arch == os.uname().machine
    assert os.uname().nodename.encode() not in done.stdout or len(os.uname().nodename) < 4


@pytest.mark.parametrize("line", ["7", "[N/A]"])
def test_a_bare_root_of_busybox(tmp_path, line):
    with roots.busybox_root(tmp_path) as root:
        shutil.copy(SCRIPT, tmp_path / "report.sh")
        stand_in = tmp_path / "bin/nvidia-smi"
        stand_in.write_text(smi(say(f"NVIDIA A10, 8.6, {line}, 535.104.05")))
        stand_in.chmod(0o755)
        done = root.run(["/bin/sh", "/report.sh"])
        assert done.returncode == 0, done.stderr
        found = hostreport.load(done.stdout.encode(), "report")
        assert found.libc_version == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        assert found.gpus == (HostGpu("NVIDIA A10", "8.6", MIB * (7 if line == "7" else 0)),)
        assert list((tmp_path / "tmp").iterdir()) == []


def test_a_host_without_any_folder_to_write_to(machine):
    machine.write("proc/driver/nvidia/version", VERSION)
    machine.smi(smi(say("NVIDIA A10, 8.6, 23028, 535.104.05")))
    # 18 levels of `mkdir` can't be taken away from root: a PATH where it always fails can.
    tools = machine.root / "tools"
    tools.mkdir()
    for name in TOOLS.split():
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "mkdir").symlink_to(str(shutil.which("false")))
    found = machine.report((str(shutil.which("dash")),), PATH=str(tools))
    assert found.notes == ("nvidia-smi: not asked, no folder to write to (set TMPDIR)",)


def test_missing_tools_are_named(tmp_path):
    (tmp_path / "head").symlink_to(str(shutil.which("head")))
    done = subprocess.run(
        [str(shutil.which("dash")), str(SCRIPT)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "this host lacks: cat cut df" in done.stderr


@pytest.mark.parametrize("words", [("--jsno",), ("--timeout", "soon"), ("--root", "/no/such")])
def test_a_mistake_in_the_call(words, shell):
    done = subprocess.run(
        [*shell, str(SCRIPT), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "mend: sh preflight-report.sh [--json]" in done.stderr


def test_help(shell):
    done = subprocess.run(
        [*shell, str(SCRIPT), "--help"], capture_output=True, text=True, check=True
    )
    assert "--timeout" in done.stdout


def test_a_script_with_cr_lf_says_so(tmp_path, shell):
    broken = tmp_path / "report.sh"
    broken.write_bytes(SCRIPT.read_bytes().replace(b"\n", b"\r\n"))
    done = subprocess.run([*shell, str(broken)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "CR LF" in done.stderr


def test_the_link_beside_it():
    assert SCRIPT.is_symlink()
    assert SCRIPT.readlink() == Path("bundlectl/preflight-report.sh")


def test_the_way_of_a_report(machine, tmp_path):
    """bundle report-script → the host → bundle report."""
    given = run("report-script")
    assert (given.returncode, given.stderr) == (0, "")
    assert given.stdout == SCRIPT.read_text("utf-8")

    machine.write("proc/driver/nvidia/version", VERSION)
    machine.smi(smi(say("NVIDIA A10, 8.6, 23028, 535.104.05")))
    report = tmp_path / "report.txt"
    report.write_bytes(machine.run(("sh",)))
    done = run("report", str(report))
    assert done.returncode == 0, done.stderr
    for words in ("ubuntu 22.04", "1 x NVIDIA A10", "--gpu sm_86", "535.104.05", "digits  right"):
        assert words in done.stdout
    record = json.loads(run("report", str(report), "--json").stdout)
    assert record["target"]["gpus"] == ["sm_86"]

    report.write_text(report.read_text().replace("535.104", "535.704"))
    refused(run("report", str(report)), 2, "not as the host printed it", "line 6")
    refused(run("report", str(tmp_path / "none")), 2, "No such file")


def test_create_takes_a_report(bench, machine, tmp_path):
    report = tmp_path / "report.txt"
    report.write_bytes(machine.run(("sh",)))
    done = bench.create(tmp_path / "media", "--dry-run", "--json", gpu=None, target=str(report))
    assert done.returncode == 0, done.stderr
    report.write_text(report.read_text().replace("libc: glibc 2", "libc: glibc 1"))
    done = bench.create(tmp_path / "media", "--dry-run", gpu=None, target=str(report))
    refused(done, 2, "not as the host printed it", "libc: glibc 1")
    assert not (tmp_path / "media").exists()
