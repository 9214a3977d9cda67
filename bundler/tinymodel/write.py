"""Write the tiny model's folder."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bundler.tinymodel import tokenizer
from bundler.tinymodel.config import ARCHITECTURES, Architecture
from bundler.tinymodel.shape import CONTEXT
from bundler.tinymodel.tensors import Tensor
from manifests.errors import UsageError, from_oserror

CARD = """\
---
license: apache-2.0
pipeline_tag: text-generation
---
# A tiny Qwen3.5 with random weights

`{name}` with {parameters} random parameters (seed {seed}), for testing how a model is carried,
installed and served. It was trained on nothing and answers nonsense.
"""


def make(
    out: Path,
    *,
    architecture: str = "causal",
    shards: int = 1,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Write the checkpoint to the new or empty folder `out`, in one rename at the end.

    `progress` gets the bytes of weights written since its last call. Raises UsageError for a
    folder that holds something or a number of shards that can't be, FilesystemError.
    """
    kind = ARCHITECTURES[architecture]
    tensors = sorted(kind.tensors(), key=lambda tensor: tensor.name)
    if not 1 <= shards <= len(tensors):
        raise UsageError(
            f"{shards} shards can't be made", mend=f"choose a number from 1 to {len(tensors)}"
        )
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"{out}: not an empty folder", mend="name a new folder")
        part = out.with_name(f".{out.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _write_documents(part, kind, tensors, seed)
        _write_weights(part, tensors, shards, seed, progress)
        part.rename(out)
    except OSError as error:
        raise from_oserror(error, "writing the model") from error


def _write_documents(
    folder: Path, kind: Architecture, tensors: Sequence[Tensor], seed: int
) -> None:
    documents = {**kind.files(), **tokenizer.files(CONTEXT)}
    documents["generation_config.json"] = {
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 20,
        "top_p": 0.95,
        "eos_token_id": [
            tokenizer.identifier(tokenizer.END),
            tokenizer.identifier(tokenizer.PADDING),
        ],
        "pad_token_id": tokenizer.identifier(tokenizer.PADDING),
    }
    for name, document in documents.items():
        text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
        (folder / name).write_text(text + "\n", "utf-8")
    parameters = sum(math.prod(tensor.shape) for tensor in tensors)
    card = CARD.format(name=kind.name, parameters=parameters, seed=seed)
    (folder / "README.md").write_text(card, "utf-8")


def _write_weights(
    folder: Path,
    tensors: Sequence[Tensor],
    shards: int,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    weight_map = {}
    for number in range(shards):
        name = "model.safetensors"
        if shards > 1:
            name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        chosen = tensors[number::shards]
        weight_map.update({tensor.name: name for tensor in chosen})
        data = safetensors({tensor.name: (tensor.shape, tensor.data(seed)) for tensor in chosen})
        (folder / name).write_bytes(data)
        progress(len(data))
    if shards > 1:
        size = 2 * sum(math.prod(tensor.shape) for tensor in tensors)
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        text = json.dumps(index, indent=2, sort_keys=True)
        (folder / "model.safetensors.index.json").write_text(text + "\n", "utf-8")


def safetensors(tensors: dict[str, tuple[tuple[int, ...], bytes]]) -> bytes:
    """The bytes of a safetensors file of bf16 tensors, given as name → (shape, data).

    Format: https://github.com/huggingface/safetensors#format - a little-endian 64-bit length,
    that many bytes of JSON (padded with spaces, so that the data is aligned), the data.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, data) in tensors.items():
        begin, end = end, end + len(data)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join(
        [len(text).to_bytes(8, "little"), text, *(data for _, data in tensors.values())]
    )
