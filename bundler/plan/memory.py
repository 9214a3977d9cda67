"""The model against the target's memory."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from bundler.create import Draft
from bundler.models.folder import FolderSource
from bundler.plan.model import FitPart, Slice
from manifests import gpu
from manifests.checkpoint import CONFIG
from manifests.console import size
from manifests.fit import Room, Shape, fit, settings_of
from manifests.lock import Model


def judge(draft: Draft, model: Model) -> FitPart:
    """Whether it fits, as far as the target's memory is known."""
    target, server = draft.choice.target, draft.choice.stack.server
    weights = sum(file.size for file in model.files if file.path.endswith(".safetensors"))
    if target.gpus == (gpu.CPU,):
        memory = weights + server.memory
        return FitPart(None, f"needs {size(memory)} of free memory, weights {size(weights)} of it")
    if not target.gpu_memory:
        return FitPart(
            None,
            f"weights {size(weights)}; the GPU's memory is not known: name a product "
            "(--gpu a10) or give the host's report (--target)",
        )
    shape = Shape.from_config(_config(draft, model), weights)
    if shape is None:
        return FitPart(
            None, f"weights {size(weights)}; not known for this class of model", target.gpu_memory
        )
    settings = settings_of(server.arguments)
    found = fit(shape, gpu_memory=target.gpu_memory, gpus=target.gpu_count or 1, settings=settings)
    sentence = found.text().splitlines()[0]
    return FitPart(
        fits=found.fits,
        sentence="; ".join((sentence, *found.refusal)),
        memory=found.room.gpu_memory,
        slices=_slices(found.room),
        alternatives=found.alternatives,
        figures=found.as_record(),
    )


def _slices(room: Room) -> tuple[Slice, ...]:
    parts = (
        ("weights", room.weights),
        ("overhead", room.overhead),
        ("cache for requests", room.cache),
        ("left free", room.gpu_memory - room.usable),
    )
    return tuple(Slice(name, amount) for name, amount in parts if amount > 0)


def _config(draft: Draft, model: Model) -> dict[str, Any]:
    """The model's config.json; looking at the model has brought it, where it is not in a folder."""
    source = draft.choice.model
    for file in model.files:
        if file.path == CONFIG:
            path: Path = draft.workshop.store.path(file.sha256)
            if isinstance(source, FolderSource):
                path = source.folder / CONFIG
            with suppress(OSError, ValueError):
                data = json.loads(path.read_bytes())
                return data if isinstance(data, dict) else {}
    return {}
