import errno
import os
import shlex
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import host as hosts
from bundlectl.checks import CHECKS, Needs
from bundlectl.config import ServeConfig
from bundlectl.host import FileSystem, Host, probe
from bundlectl.nvidia import MIB, Gpu
from bundlectl.preflight import examine, refuse, rounded
from manifests.errors import FilesystemError, TargetError, UsageError
from manifests.records import to_data
from manifests.stack import Server
from tests.unit.test_manifests_fit_answer import shape

GIB = 1 << 30
DISK = FileSystem("/data", "/dev/sdb1", "ext4", 4096, 10 * GIB, 100_000)
GOOD = Host(
    prefix="/data/vllm-bundle",
    ground="/data",
    writable=True,
    file_system=DISK,
    glibc="2.31",
    cpu_flags=frozenset({"sse2", "avx2"}),
    memory=8 * GIB,
    now=2000,
)
NEEDS = Needs(
    disk=10 * GIB,
    inodes=100_000,
    glibc="2.28",
    cpu_flags=("avx2", "avx512f"),
    memory=8 * GIB,
    port=8000,
    environment="releases/r1/env",
    longest_path="releases/r1/env/lib/python3.11/site-packages/x.py",
    created=2000,
)


def levels(needs, host, **named):
    found = examine(needs, host, **named)
    return {finding.name: finding.level for finding in found}


def bad(needs=NEEDS, host=GOOD, **named):
    return {name: level for name, level in levels(needs, host, **named).items() if level != "ok"}


def test_a_host_that_just_fits():
    findings = examine(NEEDS, GOOD)
    assert {finding.level for finding in findings} == {"ok"}
    assert len(findings) == len(CHECKS)
    refuse(findings)


def file_system(**changes):
    return replace(GOOD, file_system=replace(DISK, **changes))


@pytest.mark.parametrize(
    ("host", "name", "level", "needed"),
    [
        (file_system(free=10 * GIB - 1), "disk", "stop", "free 1 bytes there"),
        (file_system(inodes=99_999), "inodes", "stop", "100000 files"),
        (file_system(noexec=True), "noexec", "stop", "remount,exec '/data'"),
        (file_system(read_only=True), "writable", "stop", "mounted read-only"),
        (replace(GOOD, writable=False), "writable", "stop", "--prefix"),
        (replace(GOOD, proc=False), "proc", "stop", "mount -t proc"),
        (replace(GOOD, machine="aarch64"), "machine", "stop", "create a bundle for aarch64"),
        (replace(GOOD, glibc="2.27"), "glibc", "stop", "glibc 2.28 or newer"),
        (replace(GOOD, glibc="2.9"), "glibc", "stop", "glibc 2.28 or newer"),
        (replace(GOOD, glibc=""), "glibc", "stop", "other than glibc"),
        (replace(GOOD, cpu_flags=frozenset({"avx"})), "cpu", "stop", "avx2, avx512f"),
        (replace(GOOD, memory=8 * GIB - 1), "memory", "stop", f"{8 * GIB} bytes"),
        (replace(GOOD, port_problem="Address already in use"), "port", "stop", "--port"),
        (replace(GOOD, loopback=False), "loopback", "stop", "ip link set lo up"),
        (replace(GOOD, shm=False), "shm", "stop", "/dev/shm"),
        (replace(GOOD, prefix="/" + "x" * 200), "path-length", "stop", "200 bytes or fewer"),
        (replace(GOOD, now=1999), "clock", "warn", "set the clock"),
        (replace(GOOD, umask=0o077), "umask", "info", "0077"),
        (replace(GOOD, environment={"LD_PRELOAD": "/x"}), "loader", "warn", "LD_PRELOAD set"),
        (
            replace(GOOD, environment={"HTTPS_PROXY": "u:secret@x"}),
            "proxies",
            "info",
            "HTTPS_PROXY",
        ),
    ],
)
def test_each_check_by_itself(host, name, level, needed):
    assert bad(host=host) == {name: level}
    worst = examine(NEEDS, host)[0]
    assert (worst.name, needed in worst.line()) == (name, True)
    assert "secret" not in worst.line()
    if level == "stop":
        with pytest.raises((TargetError, FilesystemError)) as caught:
            refuse([worst])
        assert caught.value.mend
    else:
        refuse([worst])


@pytest.mark.parametrize(
    ("driver", "fits"),
    [("525.60.13", True), ("535.54", True), ("1000.1", True), ("525.60.12", False), ("", False)],
)
def test_the_driver_is_compared_as_a_release(driver, fits):
    needs = replace(NEEDS, driver="525.60.13")
    assert bad(needs, replace(GOOD, driver=driver)) == ({} if fits else {"driver": "stop"})


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC\n"
            "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
            "535.104.05",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  "
            "(dvs-builder@U22)  Sun Jul 27 06:54:38 UTC 2025\nGCC version:  13.3.0\n",
            "580.65.06",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82  Fri Nov\n", "470.82"),
        ("GCC version:  gcc version 12.2.0\n", ""),
        ("", ""),
    ],
)
def test_the_release_of_the_kernel_module(text, release):
    assert hosts.driver_release(text) == release


@pytest.mark.parametrize(
    "host",
    [
        file_system(inodes=-1),  # btrfs has no such limit
        replace(GOOD, glibc="2.100"),
        replace(GOOD, glibc="3.0"),
        replace(GOOD, cpu_flags=frozenset({"avx512f"})),
        replace(GOOD, environment={"HTTP_PROXY": "", "LD_LIBRARY_PATH": ""}),
    ],
)
def test_what_is_fine(host):
    assert bad(host=host) == {}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"environment": "releases/" + "x" * 230}, {"path-length": "stop"}),
        ({"longest_path": "x/" * 2100}, {"path-length": "stop"}),
        ({"longest_path": "x" * 256}, {"path-length": "stop"}),
        ({"longest_path": "x" * 255}, {}),
        ({"gpus": ("sm_90",)}, {"gpu": "stop"}),
        ({"driver": "525.60.13"}, {"driver": "stop"}),
        ({"port": 0, "cpu_flags": (), "glibc": ""}, {}),
    ],
)
def test_other_needs(needs, expected):
    assert bad(replace(NEEDS, **needs)) == expected


def test_the_exact_limit_of_binary_prefixes():
    room = 255 - len(f"{GOOD.prefix}/")
    assert bad(replace(NEEDS, environment="x" * room)) == {}
    assert bad(replace(NEEDS, environment="x" * (room + 1))) == {"path-length": "stop"}


def test_a_gpu_needs_all_device_nodes():
    """Case B73."""
    nodes = ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    needs = replace(NEEDS, gpus=("sm_90",))
    assert bad(needs, replace(GOOD, gpu_devices=nodes)) == {}
    found = examine(needs, replace(GOOD, gpu_devices=nodes[1:]))[0]
    assert "/dev/nvidia-uvm" in found.found


def on(*gpus, **needs):
    """A model of 9B on these GPUs."""
    devices = ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    wanted = {"gpus": ("sm_89",), "served": ("sm_86", "sm_89"), "shape": shape("Qwen3.5-9B")}
    return replace(NEEDS, **wanted | needs), replace(GOOD, gpu_devices=devices, gpus=gpus)


def card(mib=46068, free=45500, capability="8.9"):
    name = "NVIDIA L4" if mib == 23034 else "NVIDIA L40S"
    return Gpu("GPU-1", name, mib * MIB, free * MIB, capability)


def finding(name, needs, host):
    return next(found for found in examine(needs, host) if found.name == name)


def test_a_model_that_fits_the_host_s_gpus():
    assert bad(*on(card())) == {}
    found = finding("model-fit", *on(card()))
    assert found.found.startswith("NVIDIA L40S: weights 19.30 GB + ")
    assert "fits, max_model_len 262144" in found.found


def test_a_model_that_does_not_fit_is_refused_with_numbers_and_what_would():
    """Exit code 5, before anything is unpacked."""
    needs, host = on(card(23034, 22500))
    assert bad(needs, host) == {"model-fit": "stop"}
    with pytest.raises(TargetError) as caught:
        refuse(examine(needs, host))
    error = caught.value
    assert "NVIDIA L4: weights 19.30 GB + " in error.what
    assert "does not fit; weights and overhead take" in error.what
    assert "are missing" in error.what
    assert "Qwen/Qwen3.5-4B (9.32 GB of weights)" in error.mend
    assert "use 2 such GPUs" in error.mend
    assert bad(*on(card(23034, 22500), card(23034, 22500))) == {}
    ignored = bad(needs, host, ignore=frozenset({"model-fit"}))
    assert ignored == {"model-fit": "warn"}


def test_memory_that_another_process_holds_is_a_warning():
    needs, host = on(card(free=40000))
    assert bad(needs, host) == {"gpu-memory": "warn"}
    found = finding("gpu-memory", needs, host)
    assert "41.94 GB of 48.31 GB are free, running programs hold the rest" in found.found
    assert "with what is free, max_model_len " in found.found
    assert found.needed == "43.48 GB"
    found = finding("gpu-memory", *on(card(free=10000)))
    assert "the model does not fit into what is free" in found.found


def test_serve_toml_of_an_earlier_installation_counts():
    needs, host = on(card(free=40000), settings=ServeConfig(gpu_memory_utilization=70))
    assert bad(needs, host) == {}
    needs, host = on(card(), settings=ServeConfig(max_model_len=300_000))
    assert bad(needs, host) == {"model-fit": "stop"}
    assert "set max_model_len to 262144" in finding("model-fit", needs, host).mend


def test_a_host_without_a_gpu_is_told_the_length():
    server = Server("s", memory=2 << 30, environment={"VLLM_CPU_KVCACHE_SPACE": "1"})
    model = shape("Qwen3-8B")
    needs = replace(NEEDS, shape=model, server=server, memory=model.weights + server.memory)
    found = finding("model-fit", needs, replace(GOOD, memory=needs.memory))
    assert found.found.startswith("VLLM_CPU_KVCACHE_SPACE 1 GiB: the stack's own; max_model_len ")
    assert bad(needs, replace(GOOD, memory=needs.memory - 1)) == {"memory": "stop"}


def test_gpus_without_code_for_them():
    needs, host = on(card(capability="9.0"))
    assert bad(needs, host) == {"gpu-code": "stop"}
    found = finding("gpu-code", needs, host)
    assert (found.found, found.needed) == ("the GPUs are sm_90", "one of: sm_86, sm_89")


def test_a_display_card_beside_the_gpus_needs_no_code():
    screen = Gpu("GPU-9", "T400", 4096 * MIB, 4000 * MIB, "7.5")
    assert bad(*on(screen, card())) == {}
    assert finding("gpu-code", *on(screen, card())).found == "the GPUs are sm_89"


def test_a_share_that_no_gpu_ever_has_free():
    needs, host = on(card(), settings=ServeConfig(gpu_memory_utilization=100))
    assert bad(needs, host)["model-fit"] == "stop"
    assert "gpu_memory_utilization = 100" in finding("model-fit", needs, host).found


def test_models_alone_are_not_held_against_this_host_s_memory():
    needs = replace(NEEDS, memory=0, shape=shape("Qwen3.5-27B"))
    assert bad(needs, replace(GOOD, memory=GIB)) == {}
    assert "nothing is started" in finding("model-fit", needs, GOOD).found


@pytest.mark.parametrize(
    ("gpus", "needs"),
    [
        ((), {}),  # nvidia-smi is missing
        ((card(mib=0),), {}),  # MIG
        ((card(1000),), {"shape": None}),  # another class of model, or an older bundle
        ((card(capability=""),), {}),
        ((card(capability="9.0"),), {"served": ()}),
    ],
)
def test_what_is_not_known_is_no_reason_to_refuse(gpus, needs):
    assert bad(*on(*gpus, **needs)) == {}


def test_the_gpus_are_asked_for_only_where_they_matter(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho GPU-1, NVIDIA H200, 143771, 143180, Disabled, 9.0\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert probe(tmp_path).gpus == ()
    assert [one.name for one in probe(tmp_path, gpus=True).gpus] == ["NVIDIA H200"]


def test_worst_first_and_all_of_them_named():
    host = replace(GOOD, umask=0, now=0, loopback=False, memory=0)
    findings = examine(NEEDS, host)
    assert [f.level for f in findings][:4] == ["stop", "stop", "warn", "info"]
    with pytest.raises(TargetError) as caught:
        refuse(findings)
    assert [line.split(":")[0] for line in caught.value.findings] == ["memory", "loopback"]


def test_the_exit_code_follows_what_is_wrong():
    full = file_system(free=0, inodes=0)
    with pytest.raises(FilesystemError):
        refuse(examine(NEEDS, full))
    with pytest.raises(FilesystemError, match="/dev/sdb1"):
        refuse(examine(NEEDS, file_system(free=0)))
    with pytest.raises(TargetError):
        refuse(examine(NEEDS, replace(full, loopback=False)))


def test_ignored_checks_are_recorded_warnings():
    host = replace(GOOD, memory=0)
    findings = examine(NEEDS, host, frozenset({"memory"}))
    assert (findings[0].name, findings[0].level) == ("memory", "warn")
    assert "ignored" in findings[0].found
    refuse(findings)


@pytest.mark.parametrize(
    ("name", "message"),
    [("disk", "can't be ignored"), ("inodes", "can't be ignored"), ("memry", "no check 'memry'")],
)
def test_what_cannot_be_ignored(name, message):
    with pytest.raises(UsageError, match=message) as caught:
        examine(NEEDS, GOOD, frozenset({name}))
    assert caught.value.mend


def test_findings_are_records():
    data = to_data(examine(NEEDS, replace(GOOD, loopback=False))[0])
    assert data["name"] == "loopback"
    assert set(data) <= {"name", "level", "found", "needed", "mend"}


@given(st.lists(st.integers(0, 1 << 40)), st.sampled_from([512, 4096, 65536]))
def test_whole_blocks(sizes, block):
    total = rounded(sizes, block)
    assert total % block == 0
    assert sum(sizes) <= total < sum(sizes) + block * max(1, len(sizes))


# The probe, on this machine.


def test_this_machine(tmp_path):
    found = probe(tmp_path / "not/yet/there")
    assert found.ground == str(tmp_path)
    assert found.writable
    assert found.proc
    assert found.file_system.free > 0
    assert found.file_system.block in (512, 1024, 2048, 4096, 8192, 16384, 65536, 131072)
    assert found.machine == os.uname().machine
    assert found.glibc == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert found.cpu_flags
    assert found.memory > 0
    assert found.now > 1_700_000_000
    assert os.path.ismount(found.file_system.mount)


def test_the_umask_is_read_and_left(tmp_path):
    before = os.umask(0o027)
    try:
        assert probe(tmp_path).umask == 0o027
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_taken_port_is_found_and_a_free_one_is_free(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert probe(tmp_path, "127.0.0.1", port).port_problem == os.strerror(errno.EADDRINUSE)
        assert probe(tmp_path, "0.0.0.0", port).port_problem
        assert probe(tmp_path, "localhost", port).port_problem
    assert probe(tmp_path, "127.0.0.1", port).port_problem == ""


def test_an_address_that_is_not_this_machines(tmp_path):
    assert probe(tmp_path, "192.0.2.1", 8000).port_problem


def in_namespace(*flags, script):
    """Run sh in new namespaces; skip where that is not allowed."""
    before = ["unshare", "--map-root-user", "--user", *flags]
    if subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("new namespaces are not allowed here")
    environment = {**os.environ, "PYTHONPATH": ":".join(item for item in sys.path if item)}
    done = subprocess.run(
        [*before, "sh", "-ec", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def show(expression, path="/tmp"):
    code = (
        "from pathlib import Path; from bundlectl.host import probe;"
        f"h = probe(Path({str(path)!r})); print({expression})"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_loopback_that_is_down_and_up():
    """Case B49."""
    script = f"{show('h.loopback')}; ip link set lo up; {show('h.loopback')}"
    assert in_namespace("--net", script=script) == ["False", "True"]


def test_a_small_noexec_file_system(tmp_path):
    mount = f"mount -t tmpfs -o size=64k,nr_inodes=10,noexec small '{tmp_path}'"
    facts = "h.file_system.free, h.file_system.inodes, h.file_system.noexec, h.file_system.kind"
    facts += ", h.file_system.device, h.file_system.mount"
    found = in_namespace("--mount", script=f"{mount}; {show(facts, tmp_path / 'x')}")
    assert found == ["65536", "9", "True", "tmpfs", "small", str(tmp_path)]


def test_a_read_only_file_system(tmp_path):
    mount = f"mount -t tmpfs -o ro small '{tmp_path}'"
    script = f"{mount}; {show('h.file_system.read_only', tmp_path)}"
    assert in_namespace("--mount", script=script) == ["True"]


# What the probe reads, as text.

MOUNTINFO = r"""
1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
2 1 0:5 / /dev rw - devtmpfs udev rw
3 1 8:2 / /data rw shared:1 - xfs /dev/sdb1 rw
4 3 8:3 / /data/my\040disk rw master:2 - ext4 /dev/mapper/a\134b rw
5 1 0:40 / /over rw - tmpfs first rw
6 1 0:41 / /over rw - tmpfs second rw
"""


@pytest.mark.parametrize(
    ("folder", "device", "expected"),
    [
        ("/data/x", (8, 2), ("/dev/sdb1", "/data", "xfs")),
        ("/database", (8, 1), ("/dev/sda1", "/", "ext4")),
        ("/data/my disk/x", (8, 3), ("/dev/mapper/a\\b", "/data/my disk", "ext4")),
        ("/over/x", (0, 41), ("second", "/over", "tmpfs")),
        ("/data/x", (0, 99), ("/dev/sdb1", "/data", "xfs")),  # a btrfs subvolume
    ],
)
def test_mounts(folder, device, expected):
    assert hosts.mounted(MOUNTINFO, os.makedev(*device), Path(folder)) == expected


def test_no_mountinfo_is_no_crash():
    assert hosts.mounted("", 0, Path("/x")) == ("unknown", "/", "unknown")


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("processor : 0\nflags\t\t: fpu avx2\nprocessor : 1\nflags : other\n", {"fpu", "avx2"}),
        ("Features : fp asimd\n", {"fp", "asimd"}),
        ("", set()),
    ],
)
def test_cpu_flags(text, flags):
    assert hosts.cpu_flags(text) == flags


def test_meminfo():
    assert hosts.meminfo("MemTotal: 9 kB\nMemAvailable:    2048 kB\n") == 2048 * 1024
    assert hosts.meminfo("") == 0


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    texts = {"/proc/meminfo": "MemAvailable: 1000 kB\n", "/proc/self/cgroup": "0::/a/b\n"}
    read = hosts._text
    monkeypatch.setattr(hosts, "_text", lambda path: texts.get(str(path)) or read(path))
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert hosts.available_memory(tmp_path) == 1_024_000
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("5\n")
    assert hosts.available_memory(tmp_path) == 1_024_000
    (tmp_path / "a/memory.max").write_text("70000\n")
    (tmp_path / "a/memory.current").write_text("20000\n")
    assert hosts.available_memory(tmp_path) == 50_000
    # Files that were unpacked just now count as used, and are given up when memory is needed.
    (tmp_path / "a/memory.stat").write_text(
        "anon 1000\nfile 15000\ninactive_file 12000\nactive_file 2000\nodd\n"
    )
    assert hosts.available_memory(tmp_path) == 64_000
    texts["/proc/self/cgroup"] = "7:cpu,memory:/c\n1:name=systemd:/\n"
    (tmp_path / "memory").mkdir()  # the container's own view: its path is not visible
    (tmp_path / "memory/memory.limit_in_bytes").write_text("900\n")
    (tmp_path / "memory/memory.usage_in_bytes").write_text("1000\n")
    assert hosts.available_memory(tmp_path) == 0
    stat = "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\n"
    (tmp_path / "memory/memory.stat").write_text(stat)
    assert hosts.available_memory(tmp_path) == 400
