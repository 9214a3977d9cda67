"""What `manifests.fit` foretold of a start, beside what its log says."""

from pathlib import Path
from typing import Any

from manifests.fit import fit, settings_of, shape_of
from tests.gpu.fit import measured, predicted, ratios

#: What the two may differ by: of the figures that a person plans with.
CLOSE = 0.05
JUDGED = ("weights", "cache", "tokens", "concurrency")


def value_of(words: list[str], option: str, default: str) -> str:
    """The last value of an option in a command line."""
    places = [place for place, word in enumerate(words[:-1]) if word == option]
    return words[places[-1] + 1] if places else default


def compare(folder: Path, words: list[str], log: str, gpu_memory: int) -> dict[str, Any]:
    """The figures of one start: `words` are the server's arguments, `gpu_memory` bytes."""
    real = measured(log)
    shape = shape_of(folder)
    if shape is None:
        return {"measured": real, "why": "manifests.fit does not know this model"}
    settings = settings_of(words)
    share = round(float(value_of(words, "--gpu-memory-utilization", "0.9")) * 100)
    length = int(value_of(words, "--max-model-len", str(shape.max_length)))
    found = fit(shape, gpu_memory=gpu_memory, utilization=share, settings=settings)
    told = predicted(found, shape, settings, length)
    ratio = ratios(real, told)
    off = {name: ratio[name] for name in JUDGED if name in ratio}
    return {
        "utilization": share,
        "max_model_len": length,
        "measured": real,
        "predicted": told,
        "ratio": ratio,
        "within_5_per_cent": bool(off) and all(abs(one - 1) <= CLOSE for one in off.values()),
    }
