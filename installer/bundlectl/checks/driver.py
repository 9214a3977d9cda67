"""Checks of NVIDIA's driver, up to what CUDA itself says; all pass where no GPU is wanted."""

from bundlectl.checks.machine import version
from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict, listed
from bundlectl.checks.tables import result
from bundlectl.host import Host
from bundlectl.host.cuda import Cuda
from manifests import gpu

_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
_WSL_NODE = "/dev/dxg"
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
#: A folder of this name holds a newer library for an older driver (CUDA Compatibility, chapter 3).
_COMPAT = "compat"
_NOT_NEEDED = Verdict(True, "not needed: the server runs without a GPU")
_NOT_ASKED = Verdict(True, "not judged: there is no GPU device")


def _gpu(needs: Needs, host: Host) -> Verdict:
    if not needs.on_gpu:
        return _NOT_NEEDED
    there = host.accelerator.devices
    # The first GPU's number need not be 0, where a container is given another one.
    some = any(node.removeprefix("/dev/nvidia").isdecimal() for node in there)
    missing = [n for n in _NODES if n not in there and not (n == "/dev/nvidia0" and some)]
    present = not missing or _WSL_NODE in there
    mend = "install and load NVIDIA's driver (nvidia-modprobe -u makes nvidia-uvm)"
    if host.machine.container:
        mend = "give the container the GPUs: --gpus all, with NVIDIA's container toolkit"
    return Verdict(
        present,
        "present" if present else f"missing: {', '.join(missing)}",
        f"a GPU: {', '.join(kind for kind in needs.gpus if kind != gpu.CPU)}",
        mend,
    )


def _access(needs: Needs, host: Host) -> Verdict:
    if not needs.on_gpu:
        return _NOT_NEEDED
    denied = host.accelerator.denied
    found = f"this account can't open {listed(denied)}" if denied else "all can be opened"
    return Verdict(not denied, found)


def _driver(needs: Needs, host: Host) -> Verdict:
    if not needs.driver:
        return Verdict(True, "not needed")
    has = host.accelerator.driver
    found = f"NVIDIA driver {has}" if has else "no NVIDIA driver is loaded"
    mend = "install a newer driver, or create a bundle for this one (bundle stacks --driver)"
    if host.accelerator.nouveau and not has:
        found += ", but nouveau is"
        mend = "install NVIDIA's driver, and keep nouveau from loading (modprobe.d: blacklist)"
    if host.machine.wsl and not has and host.accelerator.tool == "":
        return Verdict(True, "Windows' own, which WSL does not name")
    return Verdict(
        version(has) >= version(needs.driver),
        found,
        f"NVIDIA driver {needs.driver} or newer",
        mend,
    )


def _answer(needs: Needs, host: Host) -> Cuda | Verdict:
    """What CUDA said, or why there is nothing to judge; missing devices are another check's."""
    if not needs.on_gpu:
        return _NOT_NEEDED
    if not host.accelerator.devices:
        return _NOT_ASKED
    return host.accelerator.cuda or _NOT_ASKED


def _library(needs: Needs, host: Host) -> Verdict:
    said = _answer(needs, host)
    if isinstance(said, Verdict):
        return said
    module, library = host.accelerator.driver, said.release
    beside = [item for item in host.accelerator.libraries if item != said.path]
    if not module or not library:
        return Verdict(True, f"{said.path or 'no library'}: its name says no release")
    if _COMPAT in said.path.split("/") and version(library) > version(module):
        return Verdict(True, "see forward-compat")
    others = f"; also there: {listed(tuple(beside))}" if beside else ""
    right = version(library) == version(module)
    mend = "restart the machine, where the driver was upgraded since it was started; otherwise "
    mend += f"remove {said.path} from the loader's path (/etc/ld.so.conf.d), then: ldconfig"
    return Verdict(
        right,
        f"{said.path}{'' if right else others}",
        f"the kernel module's release, {module}",
        mend,
    )


def _forward(needs: Needs, host: Host) -> Verdict:
    said = _answer(needs, host)
    if isinstance(said, Verdict):
        return said
    compat = _COMPAT in said.path.split("/")
    found = f"{said.path} is newer than the driver {host.accelerator.driver}"
    mend = "remove that folder from /etc/ld.so.conf.d, then: ldconfig; or install a newer driver"
    return Verdict(not compat, found if compat else "not in use", "", mend)


def _init(needs: Needs, host: Host) -> Verdict:
    said = _answer(needs, host)
    if isinstance(said, Verdict):
        return said
    if said.problem:
        mend = "look at the kernel's log (dmesg), then restart the machine"
        if "cannot open shared object" in said.problem:
            mend = "install the driver's CUDA library; in a container: --gpus all, and "
            mend += f"{_CAPABILITIES}=compute,utility"
        return Verdict(False, said.problem, "an answer", mend)
    if said.code:
        meaning = result(said.code)
        found = f"cuInit says {said.code}, {meaning.name}: {meaning.meaning}"
        return Verdict(False, found, "0", meaning.mend)
    major, minor = divmod(said.version // 10, 100)
    return Verdict(True, f"CUDA {major}.{minor} sees {said.devices} devices")


def _devices(needs: Needs, host: Host) -> Verdict:
    said, named = _answer(needs, host), len(host.accelerator.gpus)
    if isinstance(said, Verdict):
        return said
    if said.code or said.problem:
        return Verdict(True, "see cuda")
    enough = said.devices >= max(1, named)
    found = f"{said.devices} of the {named} GPUs that nvidia-smi names"
    return Verdict(enough, found if named else f"{said.devices} GPUs", f"{max(1, named)}")


def _tool(needs: Needs, host: Host) -> Verdict:
    if not needs.on_gpu or not host.accelerator.devices:
        return _NOT_NEEDED if not needs.on_gpu else _NOT_ASKED
    problem = host.accelerator.tool
    found = f"{problem}: memory and health of the GPUs are not known" if problem else "it answers"
    mend = "install the driver's own nvidia-smi"
    if "mismatch" in problem.lower():
        mend = "restart the machine: the driver was upgraded since it was started"
    return Verdict(not problem, found, "", mend)


def _count(needs: Needs, host: Host) -> Verdict:
    has, nodes = host.accelerator.installed, host.accelerator.devices
    seen = sum(node.removeprefix("/dev/nvidia").isdecimal() for node in nodes)
    lost = needs.on_gpu and has > seen > 0
    return Verdict(not lost, f"{seen} devices for the {has} GPUs that the driver knows")


def _visible(needs: Needs, host: Host) -> Verdict:
    chosen = needs.settings.gpus or host.environment.get("CUDA_VISIBLE_DEVICES")
    if not needs.on_gpu or chosen is None or host.accelerator.tool:
        return Verdict(True, "all of them")
    wanted = [part for part in chosen.split(",") if part.strip()]
    seen = len(host.accelerator.gpus)
    sliced = "MIG-" in chosen
    return Verdict(
        sliced or (bool(wanted) and seen == len(wanted)),
        f"CUDA_VISIBLE_DEVICES names {len(wanted)}, {seen} of them are there",
        f"{len(wanted) or 'one or more'}",
    )


def _capabilities(needs: Needs, host: Host) -> Verdict:
    given = host.environment.get(_CAPABILITIES)
    if not needs.on_gpu or given is None:
        return Verdict(True, "not limited")
    right = bool({"all", "compute"} & set(given.split(",")))
    return Verdict(right, f"{_CAPABILITIES} is {given or 'empty'}", "compute, or all")


def _mps(needs: Needs, host: Host) -> Verdict:
    runs = needs.on_gpu and host.accelerator.mps
    return Verdict(not runs, "set up" if runs else "not set up")


CHECKS = (
    Check("gpu", STOP, "the GPU's device nodes", _gpu, at_start=True),
    Check("gpu-access", STOP, "whether this account can open them", _access,
          "add the account to their group (mostly video or render), then log in again",
          at_start=True),
    Check("driver", STOP, "the driver's release, against the bundle's CUDA", _driver,
          at_start=True),
    Check("driver-library", STOP, "whether CUDA's library is of the driver's release (803)",
          _library, at_start=True),
    Check("cuda", STOP, "what cuInit says, in a process of its own", _init, at_start=True),
    Check("forward-compat", WARN, "a library for forward compatibility (804)", _forward),
    Check("cuda-devices", WARN, "whether CUDA sees every GPU that nvidia-smi names", _devices,
          "look at the kernel's log (dmesg) and, in MIG mode, at: nvidia-smi -L"),
    Check("nvidia-smi", WARN, "whether the driver's tool answers", _tool),
    Check("gpu-count", WARN, "whether each GPU of the driver has a device", _count,
          "look at the kernel's log (dmesg); in a container this is as it was started"),
    Check("visible-devices", WARN, "the GPUs that CUDA_VISIBLE_DEVICES leaves", _visible,
          "correct it, or gpus in etc/serve.toml; nvidia-smi -L lists them", at_start=True),
    Check("driver-capabilities", WARN, "what a container is given of the driver", _capabilities,
          f"start the container with: --env {_CAPABILITIES}=compute,utility"),
    Check("mps", INFO, "CUDA's Multi-Process Service", _mps,
          "nothing to do, unless CUDA fails: echo quit | nvidia-cuda-mps-control"),
)  # fmt: skip
