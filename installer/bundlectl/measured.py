"""What this machine gives a server that is about to start."""

import os
from pathlib import Path

from bundlectl import host, nvidia, sizing
from bundlectl.checks import MODEL_FIT
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.sizing import Sizing
from manifests import gpu, placement
from manifests.bundle import Manifest
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
    # As the server itself will see them.
    seen = nvidia.settled(
        {**os.environ, **settings.environment},
        lambda one: free_share(one.memory, one.free) >= share,
    )
    return sizing.on_gpus(shape, server, settings, seen, strict=MODEL_FIT not in ignored)
