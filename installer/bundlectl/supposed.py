"""The server that would be started: of which release, with which model, in how much memory."""

from dataclasses import replace

from bundlectl import host, measured, nvidia, service, sizing
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.models import Installed
from bundlectl.process import Supervisor
from bundlectl.sizing import Sizing
from manifests import gpu, placement
from manifests.errors import IntegrityError, UsageError
from manifests.fit import shape_of


def release_of(layout: Layout) -> str:
    """The release in service, or the one that would be: the newest that can be started.

    Raises UsageError where there is none.
    """
    if current := layout.current_release():
        return current
    found = []
    for name in placement.installed_releases(layout.prefix):
        try:
            manifest, _ = placement.load_manifest(layout.prefix, name)
        except (IntegrityError, UsageError):  # the audit's
            continue
        if not manifest.model_only:
            found.append((manifest.sequence, name))
    return max(found)[1] if found else service.current(layout)


def sized(layout: Layout, release: str, settings: ServeConfig, model: Installed) -> Sizing:
    """What it would be told about memory; what a running server holds counts as free.

    Raises TargetError where it can't fit.
    """
    manifest, _ = placement.load_manifest(layout.prefix, release)
    folder, running = layout.prefix / model.folders[0], Supervisor(layout).status()
    if not running.running:
        return measured.size_server(layout, release, manifest, folder, settings)
    shape = shape_of(folder)
    if manifest.target.gpus == (gpu.CPU,):
        memory = host.available_memory() + running.memory
        return sizing.on_cpu(shape, manifest.server, settings, memory)
    seen = nvidia.gpus(measured.visible_to(settings))
    empty = [replace(one, free=one.memory) for one in seen]
    return sizing.on_gpus(shape, manifest.server, settings, empty)
