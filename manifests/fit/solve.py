"""The sums behind an answer, for one model, one kind of GPU and one way to serve."""

from collections.abc import Iterator
from dataclasses import dataclass

from manifests.console import size
from manifests.fit import memory
from manifests.fit.answer import Fit, Load, Room
from manifests.fit.cache import GPU_BLOCK, Pages, pages
from manifests.fit.memory import Settings
from manifests.fit.shape import Shape
from manifests.fit.split import obstacles, split
from manifests.fit.tables import tables

#: max_model_len is suggested in such steps: the figures are estimates.
STEP = 1024
#: Of the blocks that are reckoned with, so many per cent are taken to be there when it counts.
SURE_BLOCKS = 90


@dataclass(frozen=True)
class Question:
    """What `manifests.fit.fit` is asked."""

    shape: Shape
    gpu_memory: int
    gpus: int
    utilization: int
    tensor_parallel: int | None
    max_model_len: int | None
    settings: Settings


def solve(question: Question) -> Fit:
    """The answer without alternatives."""
    shape, settings = question.shape, question.settings
    parts = question.tensor_parallel or split(shape, question.gpus)
    refusal = [f"tensor parallel {parts} is not possible: {why}" for why in obstacles(shape, parts)]
    if parts > question.gpus:
        refusal.append(f"tensor parallel {parts} needs {parts} GPUs, and there are {question.gpus}")
    usable = memory.usable(question.gpu_memory, question.utilization)
    weights = memory.weights(shape, parts, settings)
    overhead = memory.overhead(shape, question.gpu_memory, parts, settings)
    cache = usable - weights - overhead
    if cache <= 0:
        refusal.append(
            f"weights and overhead take {size(weights + overhead)}, and the server may take "
            f"{size(max(0, usable))} of each GPU: {size(-cache)} are missing"
        )
    room = Room(
        gpu_memory=question.gpu_memory,
        gpus=question.gpus,
        utilization=question.utilization,
        tensor_parallel=parts,
        usable=usable,
        weights=weights,
        overhead=overhead,
        cache=cache,
    )
    return judge(shape, room, question.max_model_len, settings, refusal)


def judge(
    shape: Shape, room: Room, wanted: int | None, settings: Settings, refusal: list[str]
) -> Fit:
    """The answer once the memory is divided; `refusal` is what forbids it already."""
    # There are no pages of a split that can't be.
    parts = 1 if any(obstacles(shape, room.tensor_parallel)) else room.tensor_parallel
    cut = pages(shape, parts, settings.block or GPU_BLOCK, settings.prefix_caching)
    longest = min(shape.max_length, cut.longest(room.cache))
    found = tuple(refusal) or tuple(_too_short(shape, cut, room.cache, longest, wanted))
    return Fit(
        room=room,
        token_bytes=cut.attention * cut.bytes // cut.tokens,
        request_bytes=cut.linear * cut.states * cut.bytes,
        block=cut.tokens,
        limit=shape.max_length,
        longest=longest,
        max_model_len=0 if found else wanted or _suggested(longest, shape.max_length),
        sequences=_sequences(cut, room, settings),
        loads=tuple(
            Load(tokens, cut.requests(room.cache, tokens))
            for tokens in tables().lengths
            if tokens <= shape.max_length
        ),
        refusal=found,
    )


def _suggested(longest: int, limit: int) -> int:
    return longest if longest == limit else longest // STEP * STEP


def _sequences(cut: Pages, room: Room, settings: Settings) -> int:
    """The most requests at a time, where vLLM's default is more than there are blocks.

    Each needs a block for its state. From 0.20 on vLLM does not start where CUDA graphs are
    captured for more (vllm/config/compilation.py: "exceeds available Mamba cache blocks").
    """
    if not cut.linear or settings.eager or settings.sequences:
        return 0
    sure = max(1, cut.count(room.cache) * SURE_BLOCKS // 100)
    return sure if sure < memory.default_sequences(room.gpu_memory) else 0


def _too_short(
    shape: Shape, cut: Pages, cache: int, longest: int, wanted: int | None
) -> Iterator[str]:
    if wanted is not None and wanted > shape.max_length:
        yield f"{wanted} tokens are asked for, and the model allows {shape.max_length}"
    elif wanted is not None and wanted > longest:
        yield (
            f"{wanted} tokens need {size(cut.needed(wanted))} of cache and {size(cache)} are left, "
            f"enough for {longest}"
        )
    elif wanted is None and longest < min(tables().least_length, shape.max_length):
        yield f"the {size(cache)} that are left for the cache hold {longest} tokens only"
