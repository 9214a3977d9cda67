"""What this machine gives a server that is about to start."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bundlectl import host, nvidia, sizing
from bundlectl.checks import MODEL_FIT
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.nvidia import Gpu
from bundlectl.sizing import Sizing
from manifests import gpu, placement
from manifests.bundle import Manifest
from manifests.errors import TargetError
from manifests.fit import UTILIZATION, shape_of
from manifests.fit.memory import free_share


def size_server(
    layout: Layout, release: str, manifest: Manifest, model: Path, settings: ServeConfig
) -> Sizing:
    """The flags about memory for a model's folder, from what is free at this moment.

    Raises TargetError where it can't fit, unless that check was ignored at the installation.
    """
    ignored = placement.load_receipt(placement.receipt_path(layout.prefix, release)).ignored
    shape, server = shape_of(model), manifest.server
    if manifest.target.gpus == (gpu.CPU,):
        strict = not {MODEL_FIT, "memory"} & set(ignored)
        return sizing.on_cpu(shape, server, settings, host.available_memory(), strict=strict)
    share = settings.gpu_memory_utilization or UTILIZATION
    seen = nvidia.settled(
        visible_to(settings), lambda one: free_share(one.memory, one.free) >= share
    )
    check_named(settings, seen)
    sized = sizing.on_gpus(shape, server, settings, seen, strict=MODEL_FIT not in ignored)
    return replace(sized, environment={**chosen(settings, seen), **sized.environment})


def check_named(settings: ServeConfig, seen: Sequence[Gpu]) -> None:
    """Refuse settings that name a GPU which is not there. What is part of one (MIG) isn't known.

    Raises TargetError.
    """
    if not settings.gpus or "MIG-" in settings.gpus or len(seen) == len(settings.gpus.split(",")):
        return
    variables = visible_to(settings)
    del variables["CUDA_VISIBLE_DEVICES"]
    every = nvidia.gpus(variables)
    if every:
        raise TargetError(
            f"gpus = {settings.gpus!r} in etc/serve.toml: this host does not have each of them",
            findings=[f"GPU {one.index}: {one.uuid} {one.name}" for one in every],
            mend="name GPUs that are there, each of them once",
        )


def visible_to(settings: ServeConfig) -> dict[str, str]:
    """The variables under which nvidia's tools show what the server itself will see."""
    hidden = {"CUDA_VISIBLE_DEVICES": settings.gpus} if settings.gpus else {}
    return {**os.environ, **settings.environment, **hidden}


def chosen(settings: ServeConfig, seen: Sequence[Gpu]) -> dict[str, str]:
    """What hides the GPUs that the settings do not name; nothing where they name none."""
    if not settings.gpus:
        return {}
    # By numbers where these are known: vLLM calls int() on each (see sizing).
    known = len(seen) == len(settings.gpus.split(","))
    devices = ",".join(str(one.index) for one in seen) if known else settings.gpus
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices}
