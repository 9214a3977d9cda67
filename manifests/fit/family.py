"""Which sizes of a family fit a GPU: what is offered to somebody who named a model that isn't."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from manifests.console import size
from manifests.fit.ask import fit
from manifests.fit.flags import settings_of
from manifests.fit.shape import Shape
from manifests.fit.tables import Checkpoint, tables

#: Most names in a sentence.
_SHOWN = 4


@dataclass(frozen=True)
class Size:
    """A size in which the family is published, as its config.json describes it."""

    repository: str
    config: dict[str, Any]


@cache
def sizes() -> tuple[Size, ...]:
    """All sizes, the smallest first."""
    text = (resources.files("manifests.fit") / "family.toml").read_text("utf-8")
    return tuple(
        Size(
            model["repository"],
            {
                "architectures": [model["architecture"]],
                "text_config": model["text"],
                "vision_config": model["vision"],
            },
        )
        for model in tomllib.loads(text)["models"]
    )


def fitting(gpu_memory: int, gpus: int, arguments: Sequence[str]) -> tuple[Checkpoint, ...]:
    """The published checkpoints that fit `gpus` GPUs of `gpu_memory` bytes, the largest first.

    `arguments` are the server's.
    """
    settings = settings_of(arguments)
    found = []
    for checkpoint in tables().checkpoints:
        shape = _shape(checkpoint)
        if shape and fit(shape, gpu_memory=gpu_memory, gpus=gpus, settings=settings).fits:
            found.append(checkpoint)
    return tuple(sorted(found, key=lambda one: (-_rank(one), -one.weights)))


def advice(gpu_memory: int, gpus: int, arguments: Sequence[str]) -> tuple[str, ...]:
    """What fits as sentences: as published, and quantised; none where the memory is not known."""
    if not gpu_memory:
        return ()
    found = fitting(gpu_memory, gpus, arguments)
    where = f"{gpus} x {size(gpu_memory)}" if gpus > 1 else size(gpu_memory)
    plain = [_named(one) for one in found if not one.quantisation]
    quantised = [_named(one) for one in found if one.quantisation]
    return (
        *([f"fits {where}: {', '.join(plain[:_SHOWN])}"] if plain else []),
        *([f"fits {where} as FP8 or Int4: {', '.join(quantised[:_SHOWN])}"] if quantised else []),
    )


def _named(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.repository.rpartition('/')[2]} ({size(checkpoint.weights)})"


def _shape(checkpoint: Checkpoint) -> Shape | None:
    config = next(_configs(checkpoint), None)
    if config is None:
        return None
    if checkpoint.quantisation:
        config = {**config, "quantization_config": {"quant_method": checkpoint.quantisation}}
    return Shape.from_config(config, checkpoint.weights)


def _rank(checkpoint: Checkpoint) -> int:
    """The place of its size in the family."""
    numbers = [n for n, one in enumerate(sizes()) if _is_of(checkpoint, one)]
    return max(numbers, default=-1)


def _configs(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    return (one.config for one in sizes() if _is_of(checkpoint, one))


def _is_of(checkpoint: Checkpoint, one: Size) -> bool:
    """Whether a repository is that size's, as published or with a suffix (-FP8, -GPTQ-Int4)."""
    return f"{checkpoint.repository}-".startswith(f"{one.repository}-")
