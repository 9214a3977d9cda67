"""Hosts built by hand: a good one, and the same with something changed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bundlectl.checks import Needs
from bundlectl.host import Account, FileSystem, Host, Machine, Network, Storage
from bundlectl.host.accelerator import Accelerator
from bundlectl.host.cuda import Cuda
from bundlectl.nvidia import MIB, Gpu
from bundlectl.nvidialog import Details
from tests.unit.test_manifests_fit_answer import shape

GIB = 1 << 30
DISK = FileSystem("/data", "/dev/sdb1", "ext4", 4096, 20 * GIB, 100_000, size=100 * GIB)
SHM = FileSystem("/dev/shm", "shm", "tmpfs", 4096, 2 * GIB, 100_000, size=2 * GIB)
GOOD = Host(
    storage=Storage("/data/vllm-bundle", "/data", DISK, shm=SHM),
    machine=Machine(
        kernel="5.15.0-105-generic",
        glibc="2.31",
        cpu_flags=frozenset({"sse2", "avx2"}),
        processors=8,
        memory=12 * GIB,
        memory_total=16 * GIB,
        now=2000,
        compiler="/usr/bin/gcc",
    ),
    account=Account(),
    network=Network(host_name="gpu1", hosts={"localhost": ("127.0.0.1",), "gpu1": ("127.0.1.1",)}),
)
NEEDS = Needs(
    disk=10 * GIB,
    inodes=100_000,
    largest=GIB,
    glibc="2.28",
    cpu_flags=("avx2", "avx512f"),
    memory=8 * GIB,
    port=8000,
    environment="releases/r1/env",
    longest_path="releases/r1/env/lib/python3.11/site-packages/x.py",
    created=2000,
)
NODES = ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"


def good(
    base: Host = GOOD, environment: Mapping[str, str] | None = None, **topics: Mapping[str, Any]
) -> Host:
    """A host with some facts changed: good(machine={"glibc": "2.27"})."""
    parts: dict[str, Any] = {
        topic: replace(getattr(base, topic), **dict(facts)) for topic, facts in topics.items()
    }
    return replace(base, environment=environment or base.environment, **parts)


def disk(base: Host = GOOD, **changes: Any) -> Host:
    """A host whose prefix lies on another kind of file system."""
    return good(base, storage={"file_system": replace(base.storage.file_system, **changes)})


def card(mib: int = 46068, free: int = 45500, capability: str = "8.9") -> Gpu:
    """An L40S, or an L4 of 23034 MiB."""
    name = "NVIDIA L4" if mib == 23034 else "NVIDIA L40S"
    return Gpu("GPU-1", name, mib * MIB, free * MIB, capability)


def with_gpus(*gpus: Gpu, **facts: Any) -> Host:
    """A host with a healthy driver and these GPUs; `facts` of the accelerator are changed."""
    known: dict[str, Any] = {
        "devices": NODES,
        "driver": "580.65.06",
        "libraries": (LIBRARY,),
        "cuda": Cuda(0, LIBRARY, 13000, max(1, len(gpus))),
        "gpus": gpus,
        "details": tuple(Details(one.uuid, one.name) for one in gpus),
    }
    return replace(GOOD, accelerator=Accelerator(**known | facts))


def for_gpu(**changes: Any) -> Needs:
    """What a bundle with a model of 9B for an L40S needs."""
    wanted = {"gpus": ("sm_89",), "served": ("sm_86", "sm_89"), "shape": shape("Qwen3.5-9B")}
    return replace(NEEDS, **wanted | changes)
