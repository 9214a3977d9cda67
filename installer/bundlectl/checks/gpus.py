"""Checks of the GPUs themselves: code for them, room for the model, health, links."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict, listed
from bundlectl.checks.tables import xids
from bundlectl.host import Host
from bundlectl.nvidia import Gpu, alike
from bundlectl.nvidialog import Details
from bundlectl.sizing import Sizing, on_cpu, on_gpus, products
from manifests.console import size
from manifests.errors import TargetError
from manifests.fit import UTILIZATION
from manifests.fit.memory import free_share
from manifests.fit.tables import tables

#: The check that a start repeats with what is free then, unless it was ignored at installation.
MODEL_FIT = "model-fit"
_NOT_NEEDED = "not needed"


def _code(needs: Needs, host: Host) -> Verdict:
    seen = alike(host.accelerator.gpus)
    found = sorted({f"sm_{one.capability.replace('.', '')}" for one in seen if one.capability})
    lacking = [name for name in found if name not in needs.served]
    return Verdict(
        not needs.served or not lacking,
        f"the GPUs are {', '.join(found)}" if found else "not known",
        f"one of: {', '.join(needs.served)}" if needs.served and found else "",
    )


def _sized(needs: Needs, gpus: Sequence[Gpu]) -> Sizing:
    """What a server would be told. Raises TargetError where it can't fit."""
    return on_gpus(needs.shape, needs.server, needs.settings, gpus)


def _model_fit(needs: Needs, host: Host) -> Verdict:
    """By the GPUs' whole memory: what is free at the moment is another check's."""
    if not needs.on_gpu:
        return _model_fit_on_cpu(needs, host)
    gpus = host.accelerator.gpus
    # A share of each GPU's memory is never a program's.
    idle = [replace(one, free=max(0, one.memory - tables().overhead.reserved)) for one in gpus]
    try:
        found = _sized(needs, idle)
    except TargetError as error:
        numbers = f"{products(alike(gpus))}: {'; '.join(error.findings or (error.what,))}"
        return Verdict(False, numbers, "room for the model and its cache", error.mend)
    if found.answer is None:
        return Verdict(True, "; ".join(found.reasons))
    return Verdict(True, f"{products(alike(gpus))}: {found.answer.text()}")


def _model_fit_on_cpu(needs: Needs, host: Host) -> Verdict:
    memory = host.machine.memory + needs.freed
    if not needs.memory:
        return Verdict(True, "not asked: nothing is started")
    if memory < needs.memory:
        return Verdict(True, "see memory")
    found = on_cpu(needs.shape, needs.server, needs.settings, memory, strict=False)
    return Verdict(True, "; ".join(found.reasons))


def _memory(needs: Needs, host: Host) -> Verdict:
    used = alike(host.accelerator.gpus)
    memory = min((one.memory for one in used), default=0)
    if not needs.on_gpu or not memory:
        return Verdict(True, "not known" if needs.on_gpu else _NOT_NEEDED)
    free = min(one.free for one in used)
    share = needs.settings.gpu_memory_utilization or UTILIZATION
    enough = free_share(memory, free) >= share
    found = f"{size(free)} of {size(memory)} are free"
    if not enough:
        found += f", {_holders(host)} hold the rest; {_with_what_is_free(needs, used)}"
    return Verdict(enough, found, f"{size(memory * share // 100)}")


def _holders(host: Host) -> str:
    """Who holds GPU memory, the greediest first; a container does not see the host's programs."""
    every = [one for item in host.accelerator.details for one in item.holders]
    every.sort(key=lambda one: -one.memory)
    told = tuple(f"{one.name} (pid {one.pid}, {size(one.memory)})" for one in every)
    return listed(told) or "running programs"


def _with_what_is_free(needs: Needs, used: Sequence[Gpu]) -> str:
    try:
        found = _sized(needs, used).answer
    except TargetError:
        return "the model does not fit into what is free"
    if found is None:
        return "whether the model fits into what is free is not known"
    return f"with what is free, max_model_len {found.max_model_len} fits"


def _each(
    needs: Needs, host: Host, wrong: Callable[[Details], str], right: str, needed: str = ""
) -> Verdict:
    """A verdict on every GPU: `wrong` says what is, or nothing."""
    if not needs.on_gpu:
        return Verdict(True, _NOT_NEEDED)
    told = [f"{one.name} {what}" for one in host.accelerator.details if (what := wrong(one))]
    return Verdict(not told, listed(tuple(told)) or right, needed)


def _errors(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        errors = f"has {one.uncorrected} uncorrected errors of memory" if one.uncorrected else ""
        rows = f"has {one.remapping} replacements of memory rows" if one.remapping else ""
        return " and ".join(filter(None, (errors, rows)))

    return _each(needs, host, wrong, "none")


def _xid(needs: Needs, host: Host) -> Verdict:
    told = tuple(
        f"Xid {one.number} of {one.bus}: {xids()[one.number]}"
        for one in host.accelerator.xids
        if one.number in xids()
    )
    bad = needs.on_gpu and bool(told)
    return Verdict(not bad, listed(told) if bad else "none that can be seen")


def _mig(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        return f"is cut into {one.slices} instances" if one.sliced else ""

    return _each(needs, host, wrong, "whole GPUs", "whole GPUs, or memory is not judged")


def _compute_mode(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        return (
            f"is in mode {one.compute_mode}" if one.compute_mode not in ("Default", "N/A") else ""
        )

    return _each(needs, host, wrong, "Default", "Default: a new server is tried beside the old one")


def _slowed(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        return f"is slowed ({', '.join(one.slowed)})" if one.slowed else ""

    return _each(needs, host, wrong, "none")


def _fabric(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        done = one.fabric in ("", "Completed", "Not Supported")
        return "" if done else f"says {one.fabric}"

    return _each(needs, host, wrong, "none, or ready", "Completed")


def _licence(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        return "is a virtual GPU without a licence, and slow" if one.unlicensed else ""

    return _each(needs, host, wrong, "not asked for")


def _persistence(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        return "" if one.persistent else "is set up anew at each start"

    return _each(needs, host, wrong, "on")


def _width(needs: Needs, host: Host) -> Verdict:
    def wrong(one: Details) -> str:
        narrow = 0 < one.link_width < one.link_most
        return f"uses {one.link_width} of {one.link_most} lanes" if narrow else ""

    return _each(needs, host, wrong, "all lanes")


def _alike(needs: Needs, host: Host) -> Verdict:
    gpus = host.accelerator.gpus
    used = alike(gpus)
    left = tuple(one.name for one in gpus if one not in used)
    apart = needs.on_gpu and bool(left)
    return Verdict(not apart, f"{listed(left)} beside {products(used)}" if apart else "of one kind")


def _links(needs: Needs, host: Host) -> Verdict:
    slow = needs.on_gpu and host.accelerator.linked is False
    found = "the GPUs talk through PCIe" if slow else "NVLink, or one GPU, or not known"
    return Verdict(not slow, found)


def _iommu(needs: Needs, host: Host) -> Verdict:
    several = needs.on_gpu and host.accelerator.linked is False
    hinders = several and host.accelerator.translated
    found = "an IOMMU translates what the GPUs send each other" if hinders else "not in the way"
    return Verdict(not hinders, found)


def _compiler(needs: Needs, host: Host) -> Verdict:
    if not needs.on_gpu:
        return Verdict(True, _NOT_NEEDED)
    own = "CC" in needs.server.environment or "CC" in needs.settings.environment
    found = "the bundle brings its own" if own else host.machine.compiler or "none"
    return Verdict(own or bool(host.machine.compiler), found, "a C compiler, for Triton's kernels")


CHECKS = (
    Check("gpu-code", STOP, "whether the bundle has code for these GPUs", _code,
          "create a bundle for these GPUs (bundle stacks --gpu), or hide them: "
          "CUDA_VISIBLE_DEVICES", at_start=True),
    Check(MODEL_FIT, STOP, "whether the model that is to be served fits", _model_fit),
    Check("gpu-memory", WARN, "memory of the GPUs that is free, and who holds the rest", _memory,
          "end what runs on the GPU (nvidia-smi names it) before the start"),
    Check("gpu-errors", WARN, "errors of the GPUs' memory (ECC)", _errors,
          "reset the GPU, or restart the machine; where they come again, have it replaced"),
    Check("xid", WARN, "errors of the GPUs in the kernel's log", _xid,
          "restart the machine; where it comes again, have the GPU looked at"),
    Check("mig", WARN, "whether GPUs are cut into instances", _mig,
          "set gpus in etc/serve.toml to one instance (nvidia-smi -L), or: nvidia-smi -mig 0"),
    Check("compute-mode", WARN, "how many programs a GPU takes", _compute_mode,
          "run: nvidia-smi -c DEFAULT, or switch models with --stop-first"),
    Check("throttled", WARN, "whether heat or power slows the GPUs", _slowed,
          "look at cooling and power supply"),
    Check("fabric", WARN, "whether NVSwitch's fabric is ready", _fabric,
          "run: systemctl status nvidia-fabricmanager"),
    Check("vgpu-licence", WARN, "the licence of virtual GPUs", _licence,
          "set the licence server up: systemctl status nvidia-gridd"),
    Check("compiler", WARN, "a C compiler for the server, supplied or installed", _compiler,
          "install gcc, or create a bundle that carries a compiler", at_start=True),
    Check("persistence", INFO, "whether the driver stays ready between programs", _persistence,
          "run: nvidia-smi -pm 1, which makes starts faster"),
    Check("pcie-width", INFO, "the lanes between GPU and processor", _width,
          "look at the slot; weights are loaded more slowly"),
    Check("mixed-gpus", INFO, "whether the GPUs are of one kind", _alike,
          "nothing to do: the others are not used; or name them: gpus in etc/serve.toml"),
    Check("nvlink", INFO, "how several GPUs are joined", _links,
          "nothing to do; tensor_parallel_size = 1 may be faster for small models"),
    Check("iommu", INFO, "an IOMMU between GPUs without NVLink", _iommu,
          "where a start hangs: kernel parameter iommu=pt, and ACS off in the firmware"),
)  # fmt: skip
