"""What would fit where something doesn't: settings, smaller checkpoints, more GPUs."""

from collections.abc import Iterator
from dataclasses import replace

from manifests.console import size
from manifests.fit.shape import Shape
from manifests.fit.solve import Question, solve
from manifests.fit.tables import Checkpoint, tables

#: A larger share is not suggested: the rest is for what nobody foresees.
MOST_UTILIZATION = 95
#: Numbers of GPUs that hosts have.
GPUS = (2, 4, 8, 16)


def offers(question: Question) -> Iterator[str]:
    """What would fit, a sentence each, the smallest change first; every one was solved."""
    shape = question.shape
    if question.max_model_len and (found := solve(replace(question, max_model_len=None))).fits:
        yield f"set max_model_len to {found.max_model_len}"
    for change, changed in _settings(question):
        if (found := solve(changed)).fits:
            yield f"{change}: max_model_len {found.max_model_len} fits"
    for checkpoint in _variants(shape):
        if (found := solve(_with(question, checkpoint))).fits:
            yield (
                f"choose {checkpoint.repository} ({size(checkpoint.weights)} of weights): "
                f"max_model_len {found.max_model_len} fits"
            )
    for gpus in GPUS:
        more = replace(question, gpus=gpus, tensor_parallel=None)
        if gpus > question.gpus and (found := solve(more)).fits:
            yield (
                f"use {found.room.tensor_parallel} such GPUs (tensor parallel): "
                f"max_model_len {found.max_model_len} fits"
            )
            break
    if sibling := _sibling(question):
        yield (
            f"choose a smaller model, such as {sibling.repository} "
            f"({size(sibling.weights)} of weights)"
        )


def _settings(question: Question) -> Iterator[tuple[str, Question]]:
    if question.shape.vision and not question.settings.text_only:
        text_only = replace(question.settings, text_only=True)
        yield "serve text only (--language-model-only)", replace(question, settings=text_only)
    if question.utilization < MOST_UTILIZATION:
        yield (
            f"give the server {MOST_UTILIZATION} % of the GPU, if nothing else runs there",
            replace(question, utilization=MOST_UTILIZATION),
        )


def _family(shape: Shape) -> Iterator[Checkpoint]:
    """Checkpoints with fewer bytes, where the model is of the family in the table."""
    if shape.linear is not None:
        yield from (found for found in tables().checkpoints if found.weights < shape.weights)


def _variants(shape: Shape) -> Iterator[Checkpoint]:
    """Quantised checkpoints of the same model."""
    for checkpoint in _family(shape):
        if (checkpoint.hidden, checkpoint.layers) == (shape.hidden, shape.all_layers):
            yield checkpoint


def _sibling(question: Question) -> Checkpoint | None:
    """The largest smaller model that fits, reckoned with the cache of this one."""
    fitting = [
        checkpoint
        for checkpoint in _family(question.shape)
        if not checkpoint.quantisation and solve(_with(question, checkpoint)).fits
    ]
    return max(fitting, key=lambda checkpoint: checkpoint.weights, default=None)


def _with(question: Question, checkpoint: Checkpoint) -> Question:
    return replace(question, shape=replace(question.shape, weights=checkpoint.weights))
