"""What a server takes of a GPU's memory beside its cache; an estimate, on the careful side."""

from dataclasses import dataclass

from manifests.fit.shape import Shape
from manifests.fit.tables import Overhead, tables


@dataclass(frozen=True)
class Settings:
    """How the server is to be started, as far as its memory is concerned."""

    prefix_caching: bool = True
    text_only: bool = False  # --language-model-only: no vision part
    eager: bool = False  # --enforce-eager: no CUDA graphs
    batch_tokens: int = 0  # --max-num-batched-tokens; 0: vLLM's default for the GPU
    sequences: int = 0  # --max-num-seqs; 0: vLLM's default for the GPU
    block: int = 0  # tokens in a block of the cache; 0: the default on a GPU


def shown(product: str, sold: int) -> int:
    """Bytes that nvidia-smi shows of a product that is sold with `sold` bytes; at most so many."""
    return sold - sold // tables().ecc_part if product in tables().ecc_takes_memory else sold


def usable(gpu_memory: int, utilization: int) -> int:
    """Bytes that the server takes of a GPU; `utilization` in per cent."""
    return (gpu_memory - tables().overhead.reserved) * utilization // 100


def free_share(gpu_memory: int, free: int) -> int:
    """The greatest utilization, in per cent, for which vLLM finds enough of a GPU free.

    Its own context comes before it looks (vllm/v1/worker/gpu_worker.py: request_memory).
    """
    table = tables().overhead
    return max(0, free - table.context) * 100 // max(1, gpu_memory - table.reserved)


def weights(shape: Shape, tensor_parallel: int, settings: Settings) -> int:
    """Bytes of weights on each GPU. What isn't split (norms, routers) is far below 1 %."""
    left_out = shape.vision.weights(shape.width) if shape.vision and settings.text_only else 0
    return -(-max(0, shape.weights - left_out) // tensor_parallel)


def overhead(shape: Shape, gpu_memory: int, tensor_parallel: int, settings: Settings) -> int:
    """Bytes that the server needs on each GPU beside weights and cache."""
    table = tables().overhead
    total = table.context + _activations(shape, gpu_memory, tensor_parallel, settings, table)
    if tensor_parallel > 1:
        total += table.peers
    if not settings.eager:
        total += table.graphs
    return total


def default_sequences(gpu_memory: int) -> int:
    """The most requests at a time of a server that isn't told (vLLM's default for the GPU)."""
    table = tables().overhead
    return table.sequences_large if gpu_memory >= table.large_gpu else table.sequences


def _activations(
    shape: Shape, gpu_memory: int, tensor_parallel: int, settings: Settings, table: Overhead
) -> int:
    """The most that one step needs: a batch of text, the choice of its tokens, or a picture."""
    large = gpu_memory >= table.large_gpu
    tokens = settings.batch_tokens or (table.batch_tokens_large if large else table.batch_tokens)
    sequences = settings.sequences or default_sequences(gpu_memory)
    values = table.hidden_copies * shape.hidden
    values += table.intermediate_copies * max(shape.intermediates) // tensor_parallel
    text = tokens * values * shape.width
    choice = sequences * shape.vocabulary * table.logit_bytes
    if shape.vision is None or settings.text_only:
        return max(text, choice)
    patches = table.picture_tokens * shape.vision.merge**2
    values = shape.vision.intermediate + table.picture_copies * shape.vision.hidden
    picture = (patches * values + table.picture_tokens * shape.hidden) * shape.width
    return max(text, choice, picture)
