"""Whether the models fit the memory of the target, asked before anything long."""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bundler.models import ModelSource
from bundler.models.folder import FolderSource
from manifests import gpu
from manifests.checkpoint import CONFIG
from manifests.errors import TargetError
from manifests.fit import Fit, Shape, fit, settings_of
from manifests.lock import Model, Target
from manifests.stack import Stack
from wheelhouse.store import Store

WEIGHTS = ".safetensors"


def shape_of(model: Model, source: ModelSource, store: Store) -> Shape | None:
    """The shape of a model that was looked at; None where its class or its files are not known."""
    return Shape.from_config(_config(model, source, store), weights(model))


def weights(model: Model) -> int:
    """Bytes of a model's weights."""
    return sum(file.size for file in model.files if file.path.endswith(WEIGHTS))


def answer(shape: Shape | None, target: Target, stack: Stack) -> Fit | None:
    """How a model fits the target's GPUs; None where either is not known."""
    if shape is None or target.gpus == (gpu.CPU,) or not target.gpu_memory:
        return None
    return fit(
        shape,
        gpu_memory=target.gpu_memory,
        gpus=target.gpu_count or 1,
        settings=settings_of(stack.server.arguments),
    )


def require(models: Iterable[tuple[Model, Shape | None]], target: Target, stack: Stack) -> None:
    """Refuse models that can't be served on the target.

    Raises TargetError with the numbers and with what would fit.
    """
    for model, shape in models:
        found = answer(shape, target, stack)
        if found is None or found.fits:
            continue
        count = "" if target.gpu_count else "; or say how many GPUs there are (--gpu '2x …')"
        raise TargetError(
            f"{model.name} does not fit the GPU memory of the target",
            findings=(found.text().splitlines()[0], *found.refusal),
            why="a server started with it would end for want of memory",
            mend="; or ".join(found.alternatives or ("choose a smaller model",)) + count,
        )


def _config(model: Model, source: ModelSource, store: Store) -> dict[str, Any]:
    """The model's config.json; looking at the model has brought it, where it is not in a folder."""
    for file in model.files:
        if file.path == CONFIG:
            path: Path = store.path(file.sha256)
            if isinstance(source, FolderSource):
                path = source.folder / CONFIG
            with suppress(OSError, ValueError, RecursionError):
                data = json.loads(path.read_bytes())
                return data if isinstance(data, dict) else {}
    return {}
