"""The probe, on this machine and in namespaces; and what it reads, as text."""

import errno
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.host import account, filesystems, kernellog, machine, memory, network, probe, reading
from bundlectl.host.accelerator import devices_of, driver_release, libraries, linked, translated
from bundlectl.nvidia import Gpu
from bundlectl.preflight import examine
from tests.support.hosts import NEEDS
from tests.support.mounts import mounted, needs_root, tmpfs


def test_this_machine(tmp_path):
    found = probe(tmp_path / "not/yet/there")
    place, computer = found.storage, found.machine
    assert place.ground == str(tmp_path)
    assert place.forbidden == ()
    assert place.file_system.free > 0
    assert place.file_system.size >= place.file_system.free
    assert place.file_system.block in (512, 1024, 2048, 4096, 8192, 16384, 65536, 131072)
    assert os.path.ismount(place.file_system.mount)
    assert not place.case_blind
    assert computer.proc
    assert computer.architecture == os.uname().machine
    assert computer.kernel == os.uname().release
    assert computer.glibc == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert computer.cpu_flags
    assert 1 <= computer.processors <= os.cpu_count()
    assert 0 < computer.memory <= computer.memory_total
    assert computer.maps > 0
    assert computer.now > 1_700_000_000
    assert found.account.uid == os.geteuid()
    assert found.network.host_name == socket.gethostname()
    examine(NEEDS, found)


def test_it_is_quick(tmp_path):
    begun = time.monotonic()
    probe(tmp_path)
    assert time.monotonic() - begun < 5  # 0.05 on an idle machine


def test_the_umask_is_read_and_left(tmp_path):
    before = os.umask(0o027)
    try:
        assert probe(tmp_path).account.umask == 0o027
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_taken_port_is_found_with_its_holder_and_a_free_one_is_free(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = probe(tmp_path, "127.0.0.1", port).network
        assert found.port_problem == os.strerror(errno.EADDRINUSE)
        assert found.port_holder.startswith(f"pid {os.getpid()} (")
        assert network.port_problem("0.0.0.0", port)
        assert network.port_problem("localhost", port)
    found = probe(tmp_path, "127.0.0.1", port).network
    assert (found.port_problem, found.port_holder) == ("", "")


def test_an_address_that_is_not_this_machines():
    assert network.port_problem("192.0.2.99", 8000)


# Namespaces.


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
    up = show("h.network.loopback, len(h.network.addresses)")
    script = f"{up}; ip link set lo up; {up}"
    assert in_namespace("--net", script=script) == ["False", "0", "True", "1"]


@needs_root
def test_a_small_noexec_file_system(tmp_path):
    with tmpfs(tmp_path / "small", "size=64k", "nr_inodes=10", "noexec") as folder:
        place = probe(folder / "x").storage.file_system
        assert (place.free, place.inodes, place.noexec) == (65536, 9, True)
        assert (place.kind, place.device, place.mount) == ("tmpfs", "tmpfs", str(folder))
    with tmpfs(tmp_path / "small", "ro") as folder:
        assert probe(folder).storage.file_system.read_only


@needs_root
def test_a_cache_that_is_a_mount_of_its_own(tmp_path):
    assert probe(tmp_path).storage.cache is None
    with tmpfs(tmp_path / "cache", "noexec"):
        place = probe(tmp_path).storage.cache
        assert place is not None
        assert (place.noexec, place.mount) == (True, str(tmp_path / "cache"))


@needs_root
def test_a_file_system_that_does_not_tell_cases_apart(tmp_path):
    """A bind mount gives one folder two names, as such a file system does."""
    folder = tmp_path / "data"
    folder.mkdir()
    assert not filesystems.case_blind(folder)
    (tmp_path / "DATA").symlink_to(folder)
    assert not filesystems.case_blind(folder)
    (tmp_path / "DATA").unlink()
    with mounted(tmp_path / "DATA", "--bind", str(folder)):
        assert filesystems.case_blind(folder)
        (folder / "007").mkdir()
        assert filesystems.case_blind(folder / "007")


def test_a_name_whose_other_spelling_is_too_long(tmp_path):
    """Two bytes a letter in one case, three in the other: NAME_MAX is passed."""
    folder = tmp_path / ("ŉ" * 127)
    folder.mkdir()
    with pytest.raises(OSError, match="too long"):
        folder.with_name(folder.name.swapcase()).lstat()
    assert not filesystems.case_blind(folder)


def test_folders_on_the_way(tmp_path):
    ground = tmp_path / "open/shut"
    ground.mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    ground.chmod(0o700)
    place = probe(ground).storage
    assert str(tmp_path / "open") in place.open
    assert str(ground) in place.shut
    (tmp_path / "open").chmod(0o1777)
    assert str(tmp_path / "open") not in probe(ground).storage.open


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
    assert filesystems.mounted(MOUNTINFO, os.makedev(*device), Path(folder)) == expected


def test_no_mountinfo_is_no_crash():
    assert filesystems.mounted("", 0, Path("/x")) == ("unknown", "/", "unknown")


def test_what_is_missing_or_refused_is_empty(tmp_path):
    assert reading.text(tmp_path / "no") == ""
    assert reading.text(tmp_path) == ""
    assert reading.number(tmp_path / "no", 7) == 7
    assert reading.names(tmp_path / "no") == ()
    (tmp_path / "odd").write_bytes(b"\xff one")
    assert reading.number(tmp_path / "odd", 7) == 7
    assert network.listener(80, tmp_path) == ""
    assert machine.container(tmp_path) == ""
    assert list(machine.other_servers(tmp_path, "/p")) == []
    assert kernellog.lines(tmp_path / "no") == []
    assert devices_of(tmp_path) == ()


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        ("processor : 0\nflags\t\t: fpu avx2\nprocessor : 1\nflags : other\n", {"fpu", "avx2"}),
        ("Features : fp asimd\n", {"fp", "asimd"}),
        ("", set()),
    ],
)
def test_cpu_flags(lines, flags):
    assert machine.cpu_flags(lines) == flags


def test_meminfo():
    text = "MemTotal: 9 kB\nMemAvailable:    2048 kB\nHugePages_Free:    3\nodd\n"
    assert memory.meminfo(text) == {"MemTotal": 9216, "MemAvailable": 2 << 20, "HugePages_Free": 3}


@pytest.mark.parametrize(("mode", "room"), [(0, -1), (1, -1), (2, 60)])
def test_address_space_is_rationed_in_one_mode_only(mode, room):
    assert machine.commit_room({"CommitLimit": 100, "Committed_AS": 40}, mode) == room


@pytest.fixture
def proc(monkeypatch):
    """Texts in the place of files of /proc."""
    texts = {"/proc/meminfo": "MemAvailable: 1000 kB\n", "/proc/self/cgroup": "0::/a/b\n"}
    read = memory.text
    monkeypatch.setattr(memory, "text", lambda path: texts.get(str(path)) or read(path))
    return texts


def test_a_containers_limit_counts(tmp_path, proc):
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert memory.available_memory(tmp_path) == 1_024_000
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("5\n")
    assert memory.available_memory(tmp_path) == 1_024_000
    assert memory.memory_limit(tmp_path) == -1
    (tmp_path / "a/memory.max").write_text("70000\n")
    (tmp_path / "a/memory.current").write_text("20000\n")
    assert memory.available_memory(tmp_path) == 50_000
    assert memory.memory_limit(tmp_path) == 70_000
    # Files that were unpacked just now count as used, and are given up when memory is needed.
    (tmp_path / "a/memory.stat").write_text(
        "anon 1000\nfile 15000\ninactive_file 12000\nactive_file 2000\nodd\n"
    )
    assert memory.available_memory(tmp_path) == 64_000
    proc["/proc/self/cgroup"] = "7:cpu,memory:/c\n1:name=systemd:/\n"
    (tmp_path / "memory").mkdir()  # the container's own view: its path is not visible
    (tmp_path / "memory/memory.limit_in_bytes").write_text("900\n")
    (tmp_path / "memory/memory.usage_in_bytes").write_text("1000\n")
    assert memory.available_memory(tmp_path) == 0
    stat = "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\n"
    (tmp_path / "memory/memory.stat").write_text(stat)
    assert memory.available_memory(tmp_path) == 400
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")  # none
    assert memory.memory_limit(tmp_path) == -1


def test_a_containers_processors_and_processes(tmp_path, proc):
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert memory.processors(tmp_path) == len(os.sched_getaffinity(0))
    assert memory.process_room(tmp_path) == -1
    (inner / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a/cpu.max").write_text("50000 100000\n")
    (inner / "pids.max").write_text("100\n")
    (inner / "pids.current").write_text("40\n")
    assert memory.processors(tmp_path) == 1
    assert memory.process_room(tmp_path) == 60


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("umask=0077 locale=C LD_PRELOAD", {"umask": "0077", "locale": "C", "LD_PRELOAD": ""}),
        ("umask=u=rwx locale=", {"locale": ""}),
        ("umask=0099", {}),
        ("umask=", {}),
        ("", {}),
    ],
)
def test_what_the_shell_script_hands_down(given, found):
    assert account.told({account.CALLER: given}) == found
    assert account.read_account({account.CALLER: given, "HOME": "/"}).home == "/"


def test_names_that_were_unset_are_told(tmp_path):
    found = probe(tmp_path, environ={account.CALLER: "umask=0077 locale=C LD_PRELOAD"})
    assert found.environment["LD_PRELOAD"] == "set"
    assert (found.account.umask, found.account.locale) == (0o077, "C")


def test_whether_a_log_out_ends_the_server(tmp_path):
    assert not account.ends_at_logout(tmp_path, "ann")
    (tmp_path / "run/systemd/seats").mkdir(parents=True)
    (tmp_path / "etc/systemd").mkdir(parents=True)
    settings = tmp_path / "etc/systemd/logind.conf"
    settings.write_text("[Login]\n#KillUserProcesses=yes\n")
    assert not account.ends_at_logout(tmp_path, "ann")
    settings.write_text("[Login]\nKillUserProcesses=yes\n")
    assert account.ends_at_logout(tmp_path, "ann")
    assert not account.ends_at_logout(tmp_path, "root")
    (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
    (tmp_path / "var/lib/systemd/linger/ann").touch()
    assert not account.ends_at_logout(tmp_path, "ann")


@pytest.mark.parametrize(
    ("current", "profile"),
    [
        ("docker-default (enforce)\n", "docker-default"),
        ("/usr/bin/x y (complain)\n", ""),
        ("unconfined\n", ""),
        ("", ""),
    ],
)
def test_apparmor(current, profile):
    assert machine.apparmor(current) == profile


def test_containers(tmp_path):
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/environ").write_bytes(b"PATH=/bin\0container=lxc\0")
    assert machine.container(tmp_path) == "lxc"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert machine.container(tmp_path) == "podman"


def test_other_servers_and_not_our_own(tmp_path):
    words = {
        "7": (b"python\0-m\0vllm.entrypoints.openai.api_server\0", b""),
        "8": (b"VLLM::EngineCore_DP0\0", b"A=b\0BUNDLECTL_INSTANCE=/srv/llm/state/run/server\0"),
        "9": (b"vim\0vllm.py\0", b""),
        "self": (b"vllm.entrypoints\0", b""),
    }
    for name, (line, environ) in words.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(line)
        (tmp_path / name / "environ").write_bytes(environ)
    assert list(machine.other_servers(tmp_path, "/srv/llm")) == ["pid 7"]
    assert list(machine.other_servers(tmp_path, "/srv/other")) == ["pid 7", "pid 8"]


def test_the_hosts_file():
    text = "127.0.0.1 localhost\n::1\tlocalhost ip6 # none\n127.0.1.1 GPU1.site gpu1\n\n#x y\n1.2\n"
    assert network.hosts(text) == {
        "localhost": ("127.0.0.1", "::1"),
        "ip6": ("::1",),
        "gpu1.site": ("127.0.1.1",),
        "gpu1": ("127.0.1.1",),
    }


@pytest.mark.parametrize(
    ("address", "own", "local"),
    [
        ("127.0.1.1", {"192.0.2.2"}, True),
        ("192.0.2.2", {"192.0.2.2"}, True),
        ("203.0.113.5", {"192.0.2.2"}, False),
        ("203.0.113.5", set(), True),  # not known
        ("::1", {"192.0.2.2"}, True),
        ("gpu1", {"192.0.2.2"}, False),
    ],
)
def test_addresses_of_this_machine(address, own, local):
    assert network.is_local(address, frozenset(own)) == local


@given(st.text())
def test_any_text_is_read_without_a_crash(text):
    network.hosts(text)
    list(network.own_addresses(text))
    memory.meminfo(text)
    machine.cpu_flags(text)
    machine.apparmor(text)
    driver_release(text)
    account.told({account.CALLER: text})
    linked(text, (Gpu("GPU-1", "a", 1), Gpu("GPU-2", "b", 1, index=1)))
    kernellog.xids(text.splitlines())
    filesystems.mounted(text, 0, Path("/x"))


# GPUs.


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
    assert driver_release(text) == release


#: As `nvidia-smi topo -m` prints it, with and without NVLink.
NVLINK = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\t0-63\t0\t\tN/A\nGPU1\tNV18\t X \t0-63\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
)


@pytest.mark.parametrize(
    ("matrix", "count", "answer"),
    [
        (NVLINK, 2, True),
        (NVLINK.replace("NV18", "PHB"), 2, False),
        (NVLINK, 1, None),
        (NVLINK, 3, None),
        ("", 2, None),
    ],
)
def test_how_gpus_are_joined(matrix, count, answer):
    assert linked(matrix, [Gpu(f"GPU-{n}", "H100", 1, index=n) for n in range(count)]) is answer


@pytest.mark.parametrize(
    ("cmdline", "units", "answer"),
    [
        ("quiet", ("dmar0",), True),
        ("quiet iommu=pt", ("dmar0",), False),
        ("quiet", (), False),
    ],
)
def test_iommus(cmdline, units, answer):
    assert translated(cmdline, units) is answer


def test_every_library_of_cuda_is_found_once(tmp_path):
    real = tmp_path / "lib/libcuda.so.580.65.06"
    real.parent.mkdir()
    real.touch()
    (real.parent / "libcuda.so.1").symlink_to(real.name)
    compat = tmp_path / "compat/libcuda.so.570.10"
    compat.parent.mkdir()
    compat.touch()
    folders = (tmp_path / "lib", tmp_path / "lib", tmp_path / "compat", tmp_path / "no")
    assert libraries(folders) == [str(real), str(compat)]


LOG = [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
    "NVRM: Xid (0000:23:00): 31, Ch 0000000b, engmask 00000120",
    "Out of memory: Killed process 77 (VLLM::EngineCor) total-vm:1kB, anon-rss:2kB",
    "Memory cgroup out of memory: Killed process 78 (python3) total-vm:1kB",
    "usb 1-1: new device",
]


def test_the_kernels_log():
    assert kernellog.xids(LOG) == (kernellog.Xid("0000:3b:00", 79), kernellog.Xid("0000:23:00", 31))
    assert kernellog.killed(LOG) == ("VLLM::EngineCor (pid 77)", "python3 (pid 78)")


def test_the_kernels_log_of_this_machine_is_read_to_its_end():
    begun = time.monotonic()
    kernellog.lines()
    assert time.monotonic() - begun < 5
