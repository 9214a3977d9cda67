"""The server's arguments, as far as its memory is concerned: read from them, written for them."""

from collections.abc import Mapping, Sequence

from manifests.fit.answer import Fit
from manifests.fit.memory import Settings

TENSOR_PARALLEL, UTILIZATION = "--tensor-parallel-size", "--gpu-memory-utilization"
MAX_MODEL_LEN, MAX_NUM_SEQS = "--max-model-len", "--max-num-seqs"
#: Arguments that change what a server takes of its GPUs in ways that nothing here reckons with.
UNJUDGED = frozenset(
    {
        *("--cpu-offload-gb", "--data-parallel-size", "--dtype", "--enable-expert-parallel"),
        *("--enable-lora", "--hf-overrides", "--kv-cache-dtype", "--kv-cache-memory-bytes"),
        *("--kv-offloading-size", "--mamba-cache-dtype", "--mamba-ssm-cache-dtype"),
        *("--num-gpu-blocks-override", "--pipeline-parallel-size", "--quantization", "--runner"),
        *("--speculative-config", "--swap-space", "-q", "-pp", "-dp", "-sc", "-tp"),
    }
)

#: GiB of cache for a server without a GPU (vllm/envs.py), which takes as much as it is told.
CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"


def cpu_cache(environment: Mapping[str, str]) -> int:
    """Bytes of cache that a server without a GPU is told to take; 0 where not in whole GiB."""
    text = environment.get(CPU_CACHE, "")
    return int(text) << 30 if text.isascii() and text.isdecimal() else 0


def unjudged(arguments: Sequence[str]) -> tuple[str, ...]:
    """Those of a server's arguments for whose memory `manifests.fit` can't answer."""
    return tuple(sorted(UNJUDGED & _given(arguments).keys()))


def settings_of(arguments: Sequence[str], block: int = 0) -> Settings:
    """What a server's arguments mean for its memory; `block` as in Settings.

    vLLM's own defaults stand for what isn't said, except that prefix caching is taken to be on: it
    is the greater need, and older releases leave it off for models with linear layers.
    """
    given = _given(arguments)
    return Settings(
        prefix_caching="--no-enable-prefix-caching" not in given,
        text_only="--language-model-only" in given,
        eager="--enforce-eager" in given,
        batch_tokens=_number(given, "--max-num-batched-tokens"),
        sequences=_number(given, MAX_NUM_SEQS),
        block=block,
    )


def flags_of(found: Fit) -> tuple[str, ...]:
    """The arguments that make the server divide its GPUs as the answer says; none if it can't."""
    if not found.fits:
        return ()
    flags = {
        TENSOR_PARALLEL: str(found.room.tensor_parallel),
        UTILIZATION: f"{found.room.utilization / 100:.2f}",
        MAX_MODEL_LEN: str(found.max_model_len),
    }
    if found.sequences:
        flags[MAX_NUM_SEQS] = str(found.sequences)
    return tuple(word for pair in flags.items() for word in pair)


def _given(arguments: Sequence[str]) -> dict[str, str]:
    """Each option and what follows it; vLLM takes `--a_b=c` for `--a-b c`."""
    given = {}
    for place, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option.startswith("-"):
            given[option.replace("_", "-")] = value or "".join(arguments[place + 1 : place + 2])
    return given


def _number(given: dict[str, str], option: str) -> int:
    text = given.get(option, "")
    return int(text) if text.isascii() and text.isdigit() else 0
