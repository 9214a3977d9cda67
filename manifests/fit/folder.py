"""The shape of a model that lies in a folder."""

import json
from contextlib import suppress
from pathlib import Path

from manifests.fit.shape import Shape


def shape_of(folder: Path) -> Shape | None:
    """The model in a folder; None where its class is not known, or it can't be read.

    Whether it can be served is not this function's question; see manifests.checkpoint.
    """
    with suppress(OSError, ValueError, RecursionError):
        config = json.loads((folder / "config.json").read_bytes())
        weights = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
        return Shape.from_config(config, weights) if isinstance(config, dict) else None
    return None
