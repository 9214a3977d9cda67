"""Every check, on a host built by hand: at least once passed and at least once not."""

from dataclasses import replace

import pytest

from bundlectl.basepython import Below
from bundlectl.checks import CHECKS, LEVELS, Needs
from bundlectl.checks.tables import result, xids
from bundlectl.config import ServeConfig
from bundlectl.host.cuda import Cuda
from bundlectl.host.kernellog import Xid
from bundlectl.nvidia import MIB, Gpu
from bundlectl.nvidialog import Details, Holder
from bundlectl.preflight import examine
from manifests.errors import FilesystemError
from manifests.inventory import Distribution, Interpreter, Inventory, Platform
from manifests.overlay import Base, Overlay, Provided
from manifests.stack import Server
from tests.support.hosts import (
    DISK,
    GIB,
    GOOD,
    LIBRARY,
    NEEDS,
    NODES,
    SHM,
    card,
    disk,
    for_gpu,
    good,
    with_gpus,
)
from tests.unit.test_manifests_fit_answer import shape

GPU = for_gpu()
BY_NAME = {check.name: check for check in CHECKS}
COMPAT = "/usr/local/cuda-13.0/compat/libcuda.so.580.82.07"


def cuda(**said):
    return with_gpus(card(), cuda=Cuda(**{"path": LIBRARY, "version": 13000, "devices": 1} | said))


def details(needs=GPU, **said):
    return needs, with_gpus(card(), details=(Details("GPU-1", "NVIDIA L40S", **said),))


def two(**facts):
    return with_gpus(card(), replace(card(), uuid="GPU-2", index=1), **facts)


RECORD = "0" * 64
OVERLAY = Overlay("3.12.3", "cpython-312-x86_64-linux-gnu", (Provided("given", "1.0", RECORD),))
MANY = tuple(Provided(f"d{number:02}", "1", RECORD) for number in range(30))
BASE = Base("/b/python", "/usr/bin/python3.12", "3.12.3", ())
ON_BASE = replace(NEEDS, overlay=OVERLAY)


def on(
    version="3.12.3",
    soabi="cpython-312-x86_64-linux-gnu",
    executable="/usr/bin/python3.12",
    given="1.0",
    record=RECORD,
    problem="",
):
    """A host with an environment to put an overlay on."""
    told = Interpreter(version, "cpython", soabi, "/b/python", executable)
    there = (Distribution("given", given, record_sha256=record),)
    found = None if problem else Inventory(1, told, Platform("x86_64"), {}, there)
    return replace(GOOD, below=Below("/b/python", found, problem))


#: name, needs, host, and what its line has to say where it does not pass; "" where it passes.
CASES = [
    ("proc", NEEDS, good(machine={"proc": False}), "mount -t proc"),
    ("machine", NEEDS, good(machine={"architecture": "aarch64"}), "create a bundle for aarch64"),
    ("glibc", NEEDS, good(machine={"glibc": "2.27"}), "glibc 2.28 or newer"),
    ("glibc", NEEDS, good(machine={"glibc": "2.9"}), "glibc 2.28 or newer"),
    ("glibc", NEEDS, good(machine={"glibc": ""}), "other than glibc"),
    ("glibc", NEEDS, good(machine={"glibc": "2.100"}), ""),
    ("glibc", NEEDS, good(machine={"glibc": "3.0"}), ""),
    ("glibc", replace(NEEDS, glibc=""), good(machine={"glibc": ""}), ""),
    ("cpu", NEEDS, good(machine={"cpu_flags": frozenset({"avx"})}), "avx2, avx512f"),
    ("cpu", NEEDS, good(machine={"cpu_flags": frozenset({"avx512f"})}), ""),
    ("cpu", replace(NEEDS, cpu_flags=()), good(machine={"cpu_flags": frozenset()}), ""),
    ("memory", NEEDS, good(machine={"memory": 8 * GIB - 1}), f"{8 * GIB} bytes"),
    ("memory", NEEDS, good(machine={"memory": 8 * GIB, "swap_free": 1}), ""),
    ("memory", replace(NEEDS, freed=6 * GIB), good(machine={"memory": 2 * GIB}), ""),
    ("memory", replace(NEEDS, freed=GIB), good(machine={"memory": 2 * GIB}), "server gives back"),
    ("shm", NEEDS, good(storage={"shm": None}), "mount -t tmpfs"),
    ("kernel", NEEDS, good(machine={"kernel": "3.10.0-1160.el7.x86_64"}), "Linux 4.18 or newer"),
    ("kernel", NEEDS, good(machine={"kernel": "4.18.0-553.el8_10"}), ""),
    ("kernel", NEEDS, good(machine={"kernel": "unknown"}), ""),
    ("processors", NEEDS, good(machine={"processors": 1}), "needed: 2"),
    ("processors", NEEDS, good(machine={"processors": 0}), ""),
    ("sys", NEEDS, good(machine={"sys": False}), "mount -t sysfs"),
    ("shm-size", GPU, good(two(), storage={"shm": replace(SHM, free=64 << 20)}), "--shm-size"),
    ("shm-size", GPU, two(), ""),
    ("shm-size", GPU, good(with_gpus(card()), storage={"shm": replace(SHM, free=1)}), ""),
    ("overcommit", NEEDS, good(machine={"commit_room": GIB}), "vm.overcommit_memory=0"),
    ("overcommit", NEEDS, good(machine={"commit_room": 8 * GIB}), ""),
    ("overcommit", GPU, good(with_gpus(card()), machine={"commit_room": 32 * GIB}), "65.49 GB"),
    ("maps", NEEDS, good(machine={"maps": 1000}), "vm.max_map_count=65530"),
    ("maps", NEEDS, good(machine={"maps": 65530}), ""),
    ("clock", NEEDS, good(machine={"now": 1999}), "set the clock"),
    ("clock", NEEDS, good(machine={"now": 2000 + 30 * 366 * 86400}), "not 30 years after"),
    ("clock", NEEDS, good(machine={"now": 2000 + 86400}), ""),
    ("other-servers", NEEDS, good(machine={"servers": ("pid 7",)}), "pid 7"),
    ("killed", NEEDS, good(machine={"killed": ("python (pid 7)",)}), "ended python (pid 7)"),
    ("swap", NEEDS, good(machine={"memory": 9 * GIB}), "a short peak ends the server"),
    ("swap", NEEDS, good(machine={"memory": 9 * GIB, "swap_total": 9, "swap_free": 9}), ""),
    ("swap", replace(NEEDS, freed=GIB), good(machine={"memory": 9 * GIB}), ""),
    ("memory-limit", NEEDS, good(machine={"memory_limit": GIB}), "1.07 GB of 17.18 GB"),
    ("memory-limit", NEEDS, good(machine={"memory_limit": 16 * GIB}), ""),
    ("huge-pages", NEEDS, good(machine={"huge_pages": 4 * GIB}), "vm.nr_hugepages=0"),
    ("huge-pages", NEEDS, good(machine={"huge_pages": GIB}), ""),
    ("numa", NEEDS, good(machine={"numa_nodes": 2}), "numactl"),
    ("numa", GPU, good(with_gpus(card()), machine={"numa_nodes": 2}), ""),
    ("load", NEEDS, good(machine={"load": 9}), "start_timeout"),
    # The driver.
    ("gpu", GPU, with_gpus(devices=()), "missing: /dev/nvidiactl, /dev/nvidia0, /dev/nvidia-uvm"),
    ("gpu", GPU, with_gpus(devices=NODES[1:]), "missing: /dev/nvidia-uvm"),  # B73
    ("gpu", GPU, with_gpus(devices=("/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidiactl")), ""),
    ("gpu", GPU, with_gpus(devices=("/dev/dxg",)), ""),
    ("gpu", GPU, good(with_gpus(devices=()), machine={"container": "docker"}), "--gpus all"),
    ("gpu-access", GPU, with_gpus(denied=NODES[:1]), "can't open /dev/nvidia-uvm"),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver="525.60.12"), "525.60.13 or"),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver=""), "no NVIDIA driver"),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver="", nouveau=True), "nouveau"),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver="525.60.13"), ""),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver="535.54"), ""),
    ("driver", replace(GPU, driver="525.60.13"), with_gpus(driver="1000.1"), ""),
    ("driver", replace(GPU, driver="1"), good(with_gpus(driver=""), machine={"wsl": True}), ""),
    ("driver-library", GPU, with_gpus(driver="570.10"), "kernel module's release, 570.10"),  # B61
    ("driver-library", GPU, with_gpus(driver=""), ""),
    ("driver-library", GPU, cuda(path="/usr/lib64/libcuda.so.1"), ""),
    ("driver-library", GPU, cuda(path=COMPAT), ""),
    ("driver-library", GPU, cuda(path=COMPAT.replace("580.82.07", "570.10")), "570.10; also"),
    ("cuda", GPU, cuda(code=803), "803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    ("cuda", GPU, cuda(code=804), "804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    ("cuda", GPU, cuda(code=999), "nvidia-uvm"),
    ("cuda", GPU, cuda(code=100), "CUDA_VISIBLE_DEVICES"),
    ("cuda", GPU, cuda(code=12345), "CUresult 12345"),
    ("cuda", GPU, cuda(problem="cuInit did not return within 30 seconds"), "did not return"),
    ("cuda", GPU, cuda(problem="libcuda.so.1: cannot open shared object file"), "compute,utility"),
    ("cuda", GPU, with_gpus(cuda=None, devices=()), ""),
    ("cuda", GPU, with_gpus(cuda=Cuda(100), devices=()), ""),  # `gpu` tells that
    ("forward-compat", GPU, cuda(path=COMPAT), "ldconfig"),
    ("cuda-devices", GPU, two(cuda=Cuda(0, LIBRARY, 13000, 1)), "1 of the 2 GPUs"),
    ("cuda-devices", GPU, cuda(devices=0), "0 of the 1"),
    ("cuda-devices", GPU, cuda(code=803, devices=0), ""),
    ("nvidia-smi", GPU, with_gpus(tool="nvidia-smi is not there"), "are not known"),
    ("nvidia-smi", GPU, with_gpus(tool="… Driver/library version mismatch"), "restart"),
    ("nvidia-smi", GPU, with_gpus(devices=(), tool="nvidia-smi is not there"), ""),
    ("gpu-count", GPU, with_gpus(installed=2), "1 devices for the 2 GPUs"),
    ("gpu-count", GPU, with_gpus(installed=1), ""),
    ("visible-devices", GPU, good(with_gpus(), {"CUDA_VISIBLE_DEVICES": "7"}), "0 of them"),
    ("visible-devices", GPU, good(with_gpus(), {"CUDA_VISIBLE_DEVICES": ""}), "one or more"),
    ("visible-devices", GPU, good(with_gpus(), {"CUDA_VISIBLE_DEVICES": "MIG-1"}), ""),
    ("visible-devices", GPU, good(with_gpus(card()), {"CUDA_VISIBLE_DEVICES": "0"}), ""),
    ("visible-devices", for_gpu(settings=ServeConfig(gpus="0,1")), with_gpus(card()), "names 2"),
    ("driver-capabilities", GPU, good(with_gpus(card()), {"NVIDIA_DRIVER_CAPABILITIES": "utility"}),
     "is utility"),
    ("driver-capabilities", GPU,
     good(with_gpus(card()), {"NVIDIA_DRIVER_CAPABILITIES": "utility,compute"}), ""),
    ("mps", GPU, with_gpus(card(), mps=True), "nvidia-cuda-mps-control"),
    # The GPUs.
    ("gpu-code", GPU, with_gpus(card(capability="9.0")), "one of: sm_86, sm_89"),
    ("gpu-code", for_gpu(served=()), with_gpus(card(capability="9.0")), ""),
    ("gpu-code", GPU, with_gpus(card(capability="")), ""),
    ("gpu-code", GPU, with_gpus(Gpu("GPU-9", "T400", 4096 * MIB, 1, "7.5"), card()), ""),
    ("model-fit", GPU, with_gpus(card(23034, 22500)), "use 2 such GPUs"),
    ("model-fit", for_gpu(settings=ServeConfig(max_model_len=300_000)), with_gpus(card()),
     "set max_model_len to 262144"),
    ("model-fit", for_gpu(settings=ServeConfig(gpu_memory_utilization=100)), with_gpus(card()),
     "gpu_memory_utilization = 100"),
    ("model-fit", GPU, with_gpus(card()), ""),
    ("model-fit", GPU, with_gpus(), ""),  # nvidia-smi is missing
    ("model-fit", GPU, with_gpus(card(mib=0)), ""),  # MIG
    ("model-fit", for_gpu(shape=None), with_gpus(card(1000)), ""),  # of another class
    ("model-fit", replace(NEEDS, memory=0, shape=shape("Qwen3.5-27B")), GOOD, ""),
    ("gpu-memory", GPU, with_gpus(card(free=40000)), "max_model_len"),
    ("gpu-memory", GPU, with_gpus(card(free=10000)), "does not fit into what is free"),
    ("gpu-memory", GPU, with_gpus(card(free=40000), details=(
        Details("GPU-1", "NVIDIA L40S", holders=(Holder(7, "python3", 5 * GIB),)),)),
     "python3 (pid 7, 5.37 GB) hold the rest"),
    ("gpu-memory", for_gpu(settings=ServeConfig(gpu_memory_utilization=70)),
     with_gpus(card(free=40000)), ""),
    ("gpu-errors", *details(uncorrected=3), "3 uncorrected errors"),
    ("gpu-errors", *details(remapping="pending"), "pending replacements"),
    ("gpu-errors", *details(), ""),
    ("xid", GPU, with_gpus(card(), xids=(Xid("0000:3b:00", 79),)), "fallen off the bus"),
    ("xid", GPU, with_gpus(card(), xids=(Xid("0000:3b:00", 31),)), ""),  # a program's own
    ("mig", *details(sliced=True, slices=2), "is cut into 2 instances"),
    ("compute-mode", *details(compute_mode="Exclusive_Process"), "--stop-first"),
    ("throttled", *details(slowed=("thermal",)), "slowed (thermal)"),
    ("fabric", *details(fabric="In Progress"), "nvidia-fabricmanager"),
    ("fabric", *details(fabric="Completed"), ""),
    ("vgpu-licence", *details(unlicensed=True), "without a licence"),
    ("compiler", GPU, good(with_gpus(card()), machine={"compiler": ""}), "carries a compiler"),
    ("compiler", for_gpu(server=Server("s", environment={"CC": "{environment}/bin/cc"})),
     good(with_gpus(card()), machine={"compiler": ""}), ""),
    ("persistence", *details(persistent=False), "nvidia-smi -pm 1"),
    ("pcie-width", *details(link_width=8, link_most=16), "8 of 16 lanes"),
    ("pcie-width", *details(link_width=16, link_most=16), ""),
    ("mixed-gpus", GPU, with_gpus(Gpu("GPU-9", "NVIDIA T400", 4096 * MIB, 1, "7.5"), card()),
     "NVIDIA T400 beside NVIDIA L40S"),
    ("nvlink", GPU, two(linked=False), "PCIe"),
    ("nvlink", GPU, two(linked=True), ""),
    ("iommu", GPU, two(linked=False, translated=True), "iommu=pt"),
    ("iommu", GPU, two(linked=True, translated=True), ""),
    # Storage.
    ("disk", NEEDS, disk(free=10 * GIB - 1), "free 1 bytes there"),
    ("disk", NEEDS, disk(free=10 * GIB), ""),
    ("disk-room", NEEDS, disk(free=11 * GIB), "1.07 GB are left on /data"),
    ("disk-room", NEEDS, disk(free=9 * GIB), ""),  # `disk` tells that
    ("disk-room", NEEDS, good(storage={"cache": replace(DISK, mount="/c", free=1)}), "on /c"),
    ("inodes", NEEDS, disk(inodes=99_999), "100000 files"),
    ("inodes", NEEDS, disk(inodes=-1), ""),  # btrfs has no such limit
    ("writable", NEEDS,
     good(disk(read_only=True), storage={"forbidden": ("/data can't be written",)}),
     "mounted read-only"),
    ("writable", NEEDS, good(storage={"forbidden": ("/data/etc can't be read",)}), "--prefix"),
    ("writable", NEEDS, disk(read_only=True), ""),  # cache and state are mounts of their own
    ("noexec", NEEDS, disk(noexec=True), "remount,exec '/data'"),
    ("cache", NEEDS, good(storage={"cache": replace(DISK, noexec=True)}), "remount,exec,rw"),
    ("cache", NEEDS, good(storage={"cache": replace(DISK, read_only=True)}), "own, ro"),
    ("cache", NEEDS, good(storage={"cache": DISK}), ""),
    ("temporary", NEEDS, good(storage={"temporary": False, "prefix": "/" + "x" * 50}), "51 bytes"),
    ("temporary", NEEDS, good(storage={"temporary": False, "prefix": "/" + "x" * 49}), ""),
    ("path-length", NEEDS, good(storage={"prefix": "/" + "x" * 200}), "200 bytes or fewer"),
    ("path-length", replace(NEEDS, environment="releases/" + "x" * 230), GOOD, "shorter"),
    ("path-length", replace(NEEDS, longest_path="x/" * 2100), GOOD, "shorter"),
    ("path-length", replace(NEEDS, longest_path="x" * 256), GOOD, "shorter"),
    ("path-length", replace(NEEDS, longest_path="x" * 255), GOOD, ""),
    ("path-length", replace(NEEDS, environment="x" * (254 - len(GOOD.storage.prefix))), GOOD, ""),
    ("path-length", replace(NEEDS, environment="x" * (255 - len(GOOD.storage.prefix))), GOOD,
     "shorter"),
    ("links", NEEDS, disk(kind="vfat"), "ext4"),
    ("case", NEEDS, good(storage={"case_blind": True}), "are one file"),
    ("remote", NEEDS, disk(kind="nfs4"), "local disk"),
    ("lasting", NEEDS, disk(kind="tmpfs"), "does not last"),
    ("lasting", NEEDS, disk(kind="overlay"), "a container's own layer"),
    ("open-folders", NEEDS, good(storage={"open": ("/data",)}), "chmod o-w '/data'"),
    ("shut-folders", NEEDS, good(storage={"shut": ("/data",)}), "only their owner"),  # B43
    # The network.
    ("port", NEEDS, good(network={"port_problem": "Address already in use",
                                  "port_holder": "pid 7 (nginx)"}), "in use, by pid 7 (nginx)"),
    ("port", replace(NEEDS, port=80), good(network={"port_problem": "Permission denied"}),
     "set a port from 1024 on"),
    ("port", replace(NEEDS, port=0), good(network={"port_problem": "x"}), ""),
    ("loopback", NEEDS, good(network={"loopback": False}), "ip link set lo up"),  # B49
    ("localhost", NEEDS, good(network={"hosts": {}}), "127.0.0.1 localhost"),
    ("localhost", NEEDS, good(network={"hosts": {"localhost": ("::1",)}}), "/etc/hosts: ::1"),
    ("outgoing-ports", replace(NEEDS, port=40000), GOOD, "32768 to 60999"),
    ("host-name", NEEDS, good(network={"host_name": "189"}), "a number"),  # B50
    ("host-name", NEEDS, good(network={"host_name": "gpu2"}), "not looked up"),
    ("host-name", NEEDS, good(network={"hosts": {"gpu1": ("203.0.113.5",)},
                                       "addresses": frozenset({"192.0.2.2"})}), "203.0.113.5"),
    ("host-name", NEEDS, good(network={"host_name": "GPU1"}), ""),
    # The account and what is around it.
    ("file-size", NEEDS, good(account={"file_size": GIB - 1}), "ulimit -f"),
    ("file-size", NEEDS, good(account={"file_size": GIB}), ""),
    ("address-space", GPU, good(with_gpus(card()), account={"address_space": 1 << 50}), "CUDA"),
    ("address-space", NEEDS, good(account={"address_space": 31 * GIB}), "ulimit -v"),
    ("address-space", NEEDS, good(account={"address_space": 32 * GIB}), ""),
    ("open-files", NEEDS, good(account={"open_files": 1024}), "LimitNOFILE"),
    ("open-files", NEEDS, good(account={"open_files": 65536}), ""),
    ("processes", NEEDS, good(account={"processes": 100}), "TasksMax"),
    ("stack", NEEDS, good(account={"stack": 1 << 20}), "ulimit -s"),
    ("stack", NEEDS, good(account={"stack": 8 << 20}), ""),
    ("selinux", NEEDS, good(machine={"selinux": True}), "restorecon -R '/data/vllm-bundle'"),  # B46
    ("selinux", NEEDS, good(machine={"selinux": True}, storage={"prefix": "/home/a/b"}), "/opt"),
    ("logout", NEEDS, good(account={"ends_at_logout": True}), "loginctl enable-linger"),
    ("locked", GPU, good(two(), account={"locked": 65536}), "memlock"),
    ("locked", NEEDS, good(account={"locked": 65536}), ""),
    ("core", NEEDS, good(account={"core": -1}, machine={"core_pattern": "core"}), "ulimit -c 0"),
    ("core", NEEDS, good(account={"core": -1}, machine={"core_pattern": "|/bin/x"}), ""),
    ("account", NEEDS, good(account={"name": "", "uid": 123456}), "uid 123456 has no"),  # B59
    ("root", NEEDS, good(account={"uid": 0}), "runs as root"),
    ("home", NEEDS, good(account={"home": ""}), "none: missing"),
    ("home", NEEDS, good(account={"home_writable": False}), "can't be written"),
    ("umask", NEEDS, good(account={"umask": 0o077}), "0077"),  # B43
    ("locale", NEEDS, good(account={"locale": "C"}), "C; the server gets C.UTF-8"),  # B77
    ("locale", NEEDS, good(account={"locale": "zh_CN.utf8"}), ""),
    ("apparmor", NEEDS, good(machine={"apparmor": "docker-default"}), "docker-default"),
    ("seccomp", NEEDS, good(machine={"seccomp": True}), "SYS_NICE"),
    ("seccomp", GPU, good(with_gpus(card()), machine={"seccomp": True}), ""),
    ("container", NEEDS, good(machine={"container": "podman"}), "volume"),
    ("wsl", NEEDS, good(machine={"wsl": True}), "from Windows"),
    # What an overlay is put on.
    ("base-python", ON_BASE, on(problem="/b/python: can't be run"), "can't be run"),
    ("base-python", ON_BASE, GOOD, "none is named"),
    ("base-python", replace(ON_BASE, base=BASE), on(problem="gone"), "put /b/python back"),
    ("base-python", ON_BASE, on(version="3.11.9"), "the bundle was made for 3.12"),
    ("base-python", ON_BASE, on(soabi="cpython-312-x86_64-linux-musl"), "linux-musl modules"),
    ("base-python", replace(ON_BASE, base=BASE), on(executable="/c"), "/c now, and was /usr/bin"),
    ("base-python", replace(ON_BASE, base=BASE), on(version="3.12.4"), ""),
    ("base-environment", ON_BASE, on(given="1.1"), "given is 1.1, needed is 1.0"),
    ("base-environment", ON_BASE, on(record="1" * 64), "given 1.0 has other files"),
    ("base-environment", replace(ON_BASE, overlay=replace(OVERLAY, provided=MANY)), on(),
     "d11 1 is not there and 18 more"),
    ("base-environment", ON_BASE, on(version="3.11.9", given="1.1"), ""),  # told by the one above
    ("base-environment", ON_BASE, on(), ""),
    # Variables: their values are never told.
    ("loader", NEEDS, good(environment={"LD_PRELOAD": "/secret"}), "LD_PRELOAD set"),  # B56
    ("loader", NEEDS, good(environment={"LD_LIBRARY_PATH": ""}), ""),
    ("python-variables", NEEDS, good(environment={"CONDA_PREFIX": "/secret"}), "CONDA_PREFIX"),
    ("toolkit", NEEDS, good(environment={"CUDA_HOME": "/secret"}), "its own libraries"),
    ("proxies", NEEDS, good(environment={"HTTPS_PROXY": "u:secret@x"}), "HTTPS_PROXY set"),
    ("server-variables", NEEDS, good(environment={"HF_TOKEN": "secret"}), "HF_TOKEN set"),
]  # fmt: skip


def finding(name, needs, host):
    (found,) = examine(needs, host, checks=(BY_NAME[name],))
    return found


@pytest.mark.parametrize(("name", "needs", "host", "said"), CASES)
def test_each_check(name, needs, host, said):
    found = finding(name, needs, host)
    assert found.passed == (not said), found.line()
    assert said in found.line()
    assert "secret" not in found.line()
    assert bool(found.mend) == bool(said)
    assert found.found


@pytest.mark.parametrize("needs, host", [(NEEDS, GOOD), (GPU, with_gpus(card())), (GPU, two())])
def test_good_hosts_pass_all_of_them(needs, host):
    assert [found.line() for found in examine(needs, host) if not found.passed] == []


def test_every_check_has_a_case_in_which_it_fails():
    """In which it passes: the good hosts above."""
    failing = {name for name, _, _, said in CASES if said}
    assert failing == set(BY_NAME)


def test_nothing_is_asked_of_a_host_that_nothing_is_known_of():
    """An empty need, as for models alone, stops on no ordinary host."""
    assert [one.name for one in examine(Needs(), GOOD) if one.stops] == []


def test_the_table():
    assert len(CHECKS) >= 40
    assert len(BY_NAME) == len(CHECKS)
    for check in CHECKS:
        assert check.level in LEVELS
        assert check.about
        assert check.name == check.name.lower().replace("_", "-")
    assert {c.name for c in CHECKS if c.error is FilesystemError} == {"disk", "inodes", "writable"}


def test_a_failing_check_alone_does_not_drag_others_down():
    """A cause is told once: what follows from it is silent, but for what is wrong by itself."""
    bare = replace(with_gpus(devices=(), cuda=None, driver=""), accelerator=GOOD.accelerator)
    assert [one.name for one in examine(GPU, bare) if one.stops] == ["gpu"]
    stops = [one.name for one in examine(GPU, with_gpus(card(), driver="570.10")) if one.stops]
    assert stops == ["driver-library"]


def test_model_fit_tells_numbers_and_what_would_fit():
    found = finding("model-fit", GPU, with_gpus(card()))
    assert found.found.startswith("NVIDIA L40S: weights 19.30 GB + ")
    assert "fits, max_model_len 262144" in found.found
    found = finding("model-fit", GPU, with_gpus(card(23034, 22500)))
    assert "NVIDIA L4: weights 19.30 GB + " in found.found
    assert "are missing" in found.found
    assert "Qwen/Qwen3.5-4B (9.32 GB of weights)" in found.mend
    pair = (card(23034, 22500), card(23034, 22500))
    assert finding("model-fit", GPU, with_gpus(*pair)).passed


def test_a_host_without_a_gpu_is_told_the_length():
    server = Server("s", memory=2 << 30, environment={"VLLM_CPU_KVCACHE_SPACE": "1"})
    model = shape("Qwen3-8B")
    needs = replace(NEEDS, shape=model, server=server, memory=model.weights + server.memory)
    found = finding("model-fit", needs, good(machine={"memory": needs.memory}))
    assert found.found.startswith("VLLM_CPU_KVCACHE_SPACE 1 GiB: the stack's own; max_model_len ")


def test_free_memory_is_told_with_what_is_needed():
    found = finding("gpu-memory", GPU, with_gpus(card(free=40000)))
    assert found.found.startswith("41.94 GB of 48.31 GB are free, running programs hold the rest")
    assert found.needed == "43.48 GB"


def test_a_display_card_beside_the_gpus_needs_no_code():
    screen = Gpu("GPU-9", "T400", 4096 * MIB, 4000 * MIB, "7.5")
    assert finding("gpu-code", GPU, with_gpus(screen, card())).found == "the GPUs are sm_89"


def test_the_tables_in_toml():
    assert result(803).name == "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    assert result(12345).mend
    assert xids()[79] == "it has fallen off the bus"
