"""Weights against config.json: the model that is described has to be the one that is there.

A server that is given the wrong pair dies while it loads, after minutes, or answers nonsense.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from manifests.findings import Finding
from manifests.fit.count import parameters
from manifests.fit.shape import Shape
from manifests.safetensors import Tensor

_EMBEDDING = re.compile(r"(?P<prefix>(?:model\.|language_model\.)*)embed_tokens\.weight")
_PLAIN = frozenset({"BF16", "F16", "F32"})
#: Types of weights that only a quantised checkpoint has.
_QUANTISED = frozenset({"F4", "F8_E4M3", "F8_E5M2", "I8", "U8", "I32"})
#: The way out, which lies beside the layers; and a part that may lie among them.
_HEAD, _OTHERS = "lm_head.", ".visual."
#: Norms, biases and padding are not counted: parts of a hundred by which a count may be off.
_TOLERANCE = 5
_PAIR = "take config.json and the weights from the same revision of the source"


def text_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's settings, which multimodal classes keep one level down."""
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else dict(config)


def vocabulary_of(config: Mapping[str, Any]) -> int:
    """Tokens that the model has a row for; 0 where the configuration does not say."""
    size = text_of(config).get("vocab_size")
    return size if type(size) is int and size > 0 else 0


def check(config: Any, tensors: Iterable[Tensor], *, quantised: bool = False) -> Iterator[Finding]:
    """Compare what can be compared; nothing is said of what the configuration does not state.

    `quantised` says that another file states the quantisation.
    """
    tensors = list(tensors)
    if not isinstance(config, dict) or not tensors:
        return
    text = text_of(config)
    if not quantised:
        yield from _check_types(text, tensors)
    for tensor in tensors:
        found = _EMBEDDING.fullmatch(tensor.name)
        if found and tensor.dtype in _PLAIN and len(tensor.shape) == 2:
            yield from _check_embedding(text, tensor)
            yield from _check_layers(text, found["prefix"], tensors)
            yield from _check_count(config, text, found["prefix"], tensors)


def _check_types(text: Mapping[str, Any], tensors: Iterable[Tensor]) -> Iterator[Finding]:
    sizes = Counter[str]()
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.end - tensor.begin
    most = max(sizes, key=sizes.__getitem__)
    stated = text.get("quantization_config") or text.get("compression_config")
    if most in _QUANTISED and not stated:
        yield Finding(
            f"config.json: no `quantization_config`, and most of the weights are {most} (dtype)",
            _PAIR,
        )


def _check_embedding(text: Mapping[str, Any], tensor: Tensor) -> Iterator[Finding]:
    for key, found in zip(("vocab_size", "hidden_size"), tensor.shape, strict=True):
        stated = text.get(key)
        if type(stated) is int and stated != found:
            yield Finding(
                f"config.json: {key} is {stated}, {tensor.name} has {found} (other-model)", _PAIR
            )


def _check_layers(
    text: Mapping[str, Any], prefix: str, tensors: Iterable[Tensor]
) -> Iterator[Finding]:
    layer = re.compile(re.escape(prefix) + r"layers\.(\d{1,6})\.")
    found = {int(match[1]) for tensor in tensors if (match := layer.match(tensor.name))}
    stated = text.get("num_hidden_layers")
    if not found or type(stated) is not int:
        return
    # DeepSeek counts its layers for multi-token prediction on from the others.
    further = text.get("num_nextn_predict_layers")
    most = stated + (further if type(further) is int else 0)
    if not stated <= max(found) + 1 <= most:
        yield Finding(
            f"config.json: num_hidden_layers is {stated}, the weights hold layers up to "
            f"{max(found)} (other-model)",
            _PAIR,
        )
    elif holes := set(range(stated)) - found:
        yield Finding(f"the weights lack layer {min(holes)} of {stated} (missing-layer)", _PAIR)


def _check_count(
    config: Mapping[str, Any], text: Mapping[str, Any], prefix: str, tensors: Iterable[Tensor]
) -> Iterator[Finding]:
    """Count the language part, for classes of which it is known how; quantised ones are packed."""
    shape = Shape.from_config(config, weights=1)
    mine = [t for t in tensors if t.name.startswith((prefix, _HEAD)) and _OTHERS not in t.name]
    if shape is None or not {tensor.dtype for tensor in mine} <= _PLAIN:
        return
    numbers = {name: value for name, value in text.items() if type(value) in (int, bool)}
    numbers["mtp_num_hidden_layers"] = 0
    try:
        least, most = (
            parameters({**numbers, "tie_word_embeddings": tied}, None, shape.layers)
            for tied in (1, 0)
        )
    except (KeyError, TypeError):
        return
    found = sum(tensor.parameters() for tensor in mine)
    if not least * (100 - _TOLERANCE) <= 100 * found <= most * (100 + _TOLERANCE):
        described = f"{least}" if text.get("tie_word_embeddings") else f"{most}"
        yield Finding(
            f"config.json: describes {described} parameters of language, the weights hold {found} "
            "(other-model)",
            _PAIR,
        )
