"""The questions that plan, preflight and the server's defaults ask."""

from dataclasses import replace

from manifests.console import size
from manifests.fit import memory as memory_of
from manifests.fit.answer import Fit, Room
from manifests.fit.cache import CPU_BLOCK, with_cpu_states
from manifests.fit.memory import Settings
from manifests.fit.offers import offers
from manifests.fit.shape import Shape
from manifests.fit.solve import Question, judge, solve

#: A GPU's share, in per cent, for a server that has it for itself: vLLM's default up to 0.20; newer
#: ones take 92 and count the CUDA graphs in it (vllm/config/cache.py).
UTILIZATION = 90


def fit(
    shape: Shape,
    *,
    gpu_memory: int,
    gpus: int = 1,
    utilization: int = UTILIZATION,
    tensor_parallel: int | None = None,
    max_model_len: int | None = None,
    settings: Settings | None = None,
) -> Fit:
    """Answer for `gpus` equal GPUs of `gpu_memory` bytes (as nvidia-smi counts them) each.

    `utilization` in per cent; `tensor_parallel` None uses as many of the GPUs as the model can be
    split among; `max_model_len` None suggests the longest that fits.
    """
    question = Question(
        shape=shape,
        gpu_memory=gpu_memory,
        gpus=gpus,
        utilization=utilization,
        tensor_parallel=tensor_parallel,
        max_model_len=max_model_len,
        settings=settings or Settings(),
    )
    found = solve(question)
    return found if found.fits else replace(found, alternatives=tuple(offers(question)))


def fit_cpu(
    shape: Shape,
    *,
    memory: int,
    cache: int,
    beside: int,
    max_model_len: int | None = None,
    prefix_caching: bool = True,
) -> Fit:
    """Answer for a server without a GPU, whose cache has the size that it is told.

    `memory`: bytes of the host; `beside`: bytes beside the weights, the cache among them.
    """
    shape = with_cpu_states(shape)
    settings = Settings(prefix_caching=prefix_caching, block=CPU_BLOCK)
    weights = memory_of.weights(shape, 1, settings)
    refusal = []
    if (missing := weights + beside - memory) > 0:
        refusal.append(
            f"weights and server take {size(weights + beside)} of the host's {size(memory)}: "
            f"{size(missing)} are missing"
        )
    room = Room(
        gpu_memory=memory,
        gpus=1,
        utilization=100,
        tensor_parallel=1,
        usable=memory,
        weights=weights,
        overhead=beside - cache,
        cache=cache,
    )
    return judge(shape, room, max_model_len, settings, refusal)
