"""The GPUs of this machine: devices, driver, what CUDA says, and what nvidia-smi says of each."""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundlectl import nvidia, nvidialog
from bundlectl.host import kernellog
from bundlectl.host.cuda import Cuda
from bundlectl.host.cuda import ask as ask_cuda
from bundlectl.host.reading import names, text

#: Where drivers, WSL, container runtimes and toolkits (`compat`) put CUDA's library.
_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
    "/usr/local/cuda/compat/lib.real",
)
#: What CUDA opens for reading and writing; NVIDIA keeps others, as nvidia-caps/*, to root.
_OPENED = re.compile(r"/dev/(nvidia[0-9]+|nvidiactl|nvidia-uvm|dxg)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Accelerator:
    """What is known of the GPUs; nothing but devices and driver where no more was asked for."""

    devices: tuple[str, ...] = ()  # /dev/nvidia…, /dev/dxg
    denied: tuple[str, ...] = ()  # those of them that CUDA opens and this account can't
    driver: str = ""  # NVIDIA kernel module's release, "535.104.05"; empty where none is loaded
    nouveau: bool = False  # the free driver is loaded
    installed: int = 0  # GPUs that the kernel module knows
    libraries: tuple[str, ...] = ()  # every libcuda.so.RELEASE in the usual places
    cuda: Cuda | None = None  # None: not asked
    gpus: tuple[nvidia.Gpu, ...] = ()  # that a server here can use, as far as nvidia-smi names them
    tool: str = ""  # why nvidia-smi says nothing
    details: tuple[nvidialog.Details, ...] = ()  # of the same GPUs
    linked: bool | None = None  # whether NVLink joins each pair of them; None: not known
    xids: tuple[kernellog.Xid, ...] = ()
    translated: bool = False  # an IOMMU translates what devices write to each other
    mps: bool = False  # CUDA's Multi-Process Service runs


def devices_of(folder: Path = Path("/dev")) -> tuple[str, ...]:
    """The device nodes of NVIDIA's drivers, and WSL's."""
    found = [*folder.glob("nvidia*"), *folder.glob("nvidia-caps/*"), folder / "dxg"]
    return tuple(sorted(str(item) for item in found if _is_device(item)))


def driver_release(version: str) -> str:
    """The release in /proc/driver/nvidia/version, whose first line ends after it in two spaces.

    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …", or, of the open
    modules, "… NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …".
    """
    found = re.search(r"^NVRM version:.*?\s(\d{3,4}(?:\.\d+)+)\s", version, re.MULTILINE)
    return found[1] if found else ""


def read_accelerator(
    environ: Mapping[str, str], log: Sequence[str], *, ask: bool = False, details: bool = True
) -> Accelerator:
    """Look at the GPUs that a program with these variables sees.

    `ask` starts nvidia-smi and CUDA, which takes up to a few seconds on a healthy machine; without
    `details` it is less than one.
    """
    # First: after a boot, it is they that load the module and make its device nodes.
    said = _ask(environ, details) if ask else {}
    devices = devices_of()
    return Accelerator(
        devices=devices,
        denied=tuple(filter(_denied, devices)),
        driver=_driver(),
        nouveau=Path("/sys/module/nouveau").is_dir(),
        installed=len(names("/proc/driver/nvidia/gpus")),
        libraries=tuple(libraries(map(Path, _LIBRARIES))),
        xids=kernellog.xids(log),
        translated=translated(text("/proc/cmdline"), names("/sys/class/iommu")),
        mps="CUDA_MPS_PIPE_DIRECTORY" in environ or Path("/tmp/nvidia-mps").is_dir(),  # noqa: S108
        **said,
    )


def _ask(environ: Mapping[str, str], details: bool) -> dict[str, Any]:
    """The fields of Accelerator that nvidia-smi and CUDA answer."""
    # All at a time: each of them wakes the driver, and each may hang.
    with ThreadPoolExecutor() as pool:
        cuda_says = pool.submit(ask_cuda, _clean(environ)) if _present() else None
        named = pool.submit(nvidia.ask_gpus, environ)
        long = pool.submit(nvidia.ask, environ, "-q", "-x") if details else None
        topology = pool.submit(nvidia.ask, environ, "topo", "-m") if details else None
        gpus, problem = named.result()
        shown = {one.uuid for one in gpus}
        described = nvidialog.parse(long.result().text) if long else ()
        if cuda_says is None and _present():
            cuda_says = pool.submit(ask_cuda, _clean(environ))
        return {
            "cuda": cuda_says.result() if cuda_says else None,
            "gpus": gpus,
            "tool": problem,
            "details": tuple(d for d in described if not gpus or d.uuid in shown),
            "linked": linked(topology.result().text, gpus) if topology else None,
        }


def _present() -> bool:
    """Whether there is a device node, or at least a driver that can be asked to make some."""
    return bool(devices_of() or _driver())


def _driver() -> str:
    return driver_release(text("/proc/driver/nvidia/version"))


def _denied(device: str) -> bool:
    return bool(_OPENED.fullmatch(device)) and not os.access(device, os.R_OK | os.W_OK)


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """As a server gets them: no library of the caller's in the place of the system's."""
    return {
        name: value for name, value in environ.items() if not name.startswith(("LD_", "PYTHON"))
    }


def libraries(folders: Iterable[Path]) -> list[str]:
    """Every real libcuda.so.RELEASE in these folders, each once."""
    found = (item for folder in folders for item in folder.glob("libcuda.so.*.*"))
    return list(dict.fromkeys(str(item.resolve()) for item in found))


def linked(matrix: str, gpus: Sequence[nvidia.Gpu]) -> bool | None:
    """Whether `nvidia-smi topo -m` says NV… for each pair of GPUs; None where it says nothing."""
    cells = {}
    for line in _COLOUR.sub("", matrix).splitlines():
        words = line.split()
        # The head of the table is indented.
        if line.startswith("GPU") and words[0][3:].isdecimal():
            cells[int(words[0][3:])] = words[1:]
    pairs = [(a.index, b.index) for a in gpus for b in gpus if a.index != b.index]
    if not pairs or any(a not in cells or b >= len(cells[a]) for a, b in pairs):
        return None
    return all(cells[a][b].startswith("NV") for a, b in pairs)


def translated(cmdline: str, units: Sequence[str]) -> bool:
    """Whether IOMMUs are on and not in pass-through mode (kernel parameters iommu, …)."""
    through = {"iommu=pt", "iommu.passthrough=1", "intel_iommu=off", "amd_iommu=off", "iommu=off"}
    return bool(units) and not through & set(cmdline.split())


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False
