"""The server's arguments, as far as its memory is concerned: read from them, written for them."""

from collections.abc import Sequence

from manifests.fit.answer import Fit
from manifests.fit.memory import Settings


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
        sequences=_number(given, "--max-num-seqs"),
        block=block,
    )


def flags_of(found: Fit) -> tuple[str, ...]:
    """The arguments that make the server divide its GPUs as the answer says; none if it can't."""
    if not found.fits:
        return ()
    return (
        "--tensor-parallel-size",
        str(found.room.tensor_parallel),
        "--gpu-memory-utilization",
        f"{found.room.utilization / 100:.2f}",
        "--max-model-len",
        str(found.max_model_len),
    )


def _given(arguments: Sequence[str]) -> dict[str, str]:
    """Each option and what follows it; vLLM takes `--a_b=c` for `--a-b c`."""
    given = {}
    for place, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option.startswith("--"):
            given[option.replace("_", "-")] = value or "".join(arguments[place + 1 : place + 2])
    return given


def _number(given: dict[str, str], option: str) -> int:
    text = given.get(option, "")
    return int(text) if text.isascii() and text.isdigit() else 0
