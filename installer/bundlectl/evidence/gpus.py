"""What GPUs and their driver say for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl.checks.machine import version
from bundlectl.scene import Scene
from manifests import gpu
from manifests.console import size
from manifests.doctor import Answer

_UNKNOWN = Answer(None)
#: bfloat16 and FlashAttention begin here (CUDA C++ Programming Guide, "Compute Capabilities").
_AMPERE = (8, 0)
#: cudaErrorSystemNotReady: NVSwitch waits for its fabric manager.
_NOT_READY = 802
_COMPAT = "compat"
#: Parts of a GPU's memory that a desktop or a driver may hold; more is another program.
_MOST_HELD = 10


def _driver_missing(scene: Scene) -> Answer:
    driver = scene.host.accelerator.driver
    return Answer(not driver, f"NVIDIA driver {driver or 'not loaded'}")


def _driver_old(scene: Scene) -> Answer:
    needs, has = scene.needs, scene.host.accelerator.driver
    if needs is None or not needs.driver or not has:
        return _UNKNOWN
    return Answer(version(has) < version(needs.driver), f"driver {has}, needed: {needs.driver}")


def _driver_mismatch(scene: Scene) -> Answer:
    cuda, module = scene.host.accelerator.cuda, scene.host.accelerator.driver
    if cuda is None or not cuda.release or not module:
        return _UNKNOWN
    return Answer(cuda.release != module, f"{cuda.path} with kernel module {module}")


def _compat_library(scene: Scene) -> Answer:
    cuda = scene.host.accelerator.cuda
    if cuda is None or not cuda.path:
        return _UNKNOWN
    return Answer(_COMPAT in cuda.path.split("/"), f"CUDA is taken from {cuda.path}")


def _libcuda_missing(scene: Scene) -> Answer:
    cuda = scene.host.accelerator.cuda
    if cuda is None:
        return _UNKNOWN
    return Answer(not cuda.path, cuda.path or cuda.problem or "libcuda.so.1 is not found")


def _fabric_manager_down(scene: Scene) -> Answer:
    known = scene.host.accelerator
    waiting = [one.fabric for one in known.details if one.fabric not in ("", "Completed", "N/A")]
    if waiting or (known.cuda is not None and known.cuda.code == _NOT_READY):
        return Answer(True, f"the fabric is {waiting[0] if waiting else 'not ready'}")
    if known.cuda is None or not known.cuda.devices:
        return _UNKNOWN
    return Answer(False, "CUDA can be initialised")


def _uvm_missing(scene: Scene) -> Answer:
    devices = scene.host.accelerator.devices
    if not devices:
        return Answer(None, "there are no NVIDIA devices at all")
    there = "/dev/nvidia-uvm" in devices
    return Answer(not there, f"/dev/nvidia-uvm is {'' if there else 'not '}there")


def _devices_missing(scene: Scene) -> Answer:
    devices = scene.host.accelerator.devices
    return Answer(not devices, f"{len(devices)} device files of NVIDIA's driver in /dev")


def _device_forbidden(scene: Scene) -> Answer:
    denied = scene.host.accelerator.denied
    if not scene.host.accelerator.devices:
        return _UNKNOWN
    return Answer(bool(denied), f"this account can't open {', '.join(denied) or 'none of them'}")


def _gpus_hidden(scene: Scene) -> Answer:
    chosen = scene.host.environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return Answer(False, "CUDA_VISIBLE_DEVICES is not set")
    hidden = not scene.host.accelerator.gpus
    return Answer(hidden, f"CUDA_VISIBLE_DEVICES={chosen} leaves {'no' if hidden else 'a'} GPU")


def _gpu_busy(scene: Scene) -> Answer:
    known = [one for one in scene.host.accelerator.gpus if one.memory]
    if not known or scene.running:
        return _UNKNOWN
    least = min(known, key=lambda one: one.free / one.memory)
    held = least.memory - least.free
    found = f"GPU {least.index} has {size(least.free)} of {size(least.memory)} free"
    return Answer(held * _MOST_HELD > least.memory, found)


def _capability_old(scene: Scene) -> Answer:
    told = [one.capability for one in scene.host.accelerator.gpus if one.capability]
    if not told:
        return _UNKNOWN
    lowest = min(told, key=_numbers)
    return Answer(_numbers(lowest) < _AMPERE, f"compute capability {lowest}")


def _capability_uncovered(scene: Scene) -> Answer:
    if scene.needs is None or not scene.needs.served:
        return _UNKNOWN
    told = {f"sm_{one.capability.replace('.', '')}" for one in scene.host.accelerator.gpus}
    told -= {"sm_"}
    if not told:
        return _UNKNOWN
    missing = sorted(told - set(scene.needs.served))
    return Answer(
        bool(missing),
        f"{', '.join(sorted(told))}; the bundle serves "
        f"{', '.join(kind for kind in scene.needs.served if kind != gpu.CPU)}",
    )


def _mig_on(scene: Scene) -> Answer:
    details = scene.host.accelerator.details
    if not details:
        return _UNKNOWN
    return Answer(any(one.sliced for one in details), "MIG mode, as nvidia-smi says it")


def _xid_seen(scene: Scene) -> Answer:
    xids = scene.host.accelerator.xids
    found = ", ".join(f"Xid {one.number} of {one.bus}" for one in xids[-3:])
    return Answer(bool(xids), f"in the kernel's log: {found or 'no Xid that can be read'}")


def _ecc_errors(scene: Scene) -> Answer:
    details = scene.host.accelerator.details
    if not details:
        return _UNKNOWN
    bad = [one.name for one in details if one.uncorrected or one.remapping]
    return Answer(bool(bad), f"uncorrected errors: {', '.join(bad) or 'none'}")


def _numbers(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "driver-missing": _driver_missing,
    "driver-old": _driver_old,
    "driver-mismatch": _driver_mismatch,
    "compat-library": _compat_library,
    "libcuda-missing": _libcuda_missing,
    "fabric-manager-down": _fabric_manager_down,
    "uvm-missing": _uvm_missing,
    "devices-missing": _devices_missing,
    "device-forbidden": _device_forbidden,
    "gpus-hidden": _gpus_hidden,
    "gpu-busy": _gpu_busy,
    "capability-old": _capability_old,
    "capability-uncovered": _capability_uncovered,
    "mig-on": _mig_on,
    "xid-seen": _xid_seen,
    "ecc-errors": _ecc_errors,
}
