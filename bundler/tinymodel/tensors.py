"""The tiny model's weights: names and shapes as transformers 5.19 writes them, and their values.

Source: its models/qwen3_5/modeling_qwen3_5.py, and what it saves for this configuration.
"""

import math
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from bundler.tinymodel import tokenizer
from bundler.tinymodel.shape import (
    CONVOLUTION,
    FEED_FORWARD,
    HEAD,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    LINEAR_HEAD,
    LINEAR_KEY_HEADS,
    LINEAR_VALUE_HEADS,
    MERGE,
    PATCH,
    VISION_DEPTH,
    VISION_HIDDEN,
    VISION_POSITIONS,
    VISION_WIDTH,
    WIDTH,
)

Fill = Callable[[Random], float]


@dataclass(frozen=True)
class Tensor:
    """One bf16 tensor: `fill` everywhere but in the rows `silent` of its first axis (zero)."""

    name: str
    shape: tuple[int, ...]
    fill: Fill
    silent: frozenset[int] = frozenset()

    def data(self, seed: int) -> bytes:
        """Little-endian bf16, the same for a seed on every Python.

        Each tensor has its own generator, so that its bytes do not depend on how many shards
        there are. Of `random` only seeding by text and `random()` are promised not to change.
        """
        generator = Random(f"{seed}:{self.name}")  # noqa: S311 - weights, not secrets
        row = math.prod(self.shape[1:])
        values = array("f")
        for index in range(self.shape[0]):
            numbers = [self.fill(generator) for _ in range(row)]
            values.extend([0.0] * row if index in self.silent else numbers)
        return _bf16(values)


def _bf16(values: "array[float]") -> bytes:
    """The upper half of each float32: bf16, rounded towards zero."""
    if sys.byteorder == "big":
        values.byteswap()
    raw = values.tobytes()
    halves = bytearray(len(raw) // 2)
    halves[0::2], halves[1::2] = raw[2::4], raw[3::4]
    return bytes(halves)


def noise(width: float) -> Fill:
    """Uniform values with standard deviation `width` around zero."""
    reach = width * math.sqrt(3)
    return lambda generator: reach * (2 * generator.random() - 1)


def zeros(_: Random) -> float:
    """For biases, and for norms that multiply by 1 + weight."""
    return 0.0


def ones(_: Random) -> float:
    """For norms that multiply by the weight, and for dt_bias."""
    return 1.0


def decay(generator: Random) -> float:
    """A_log: the logarithm of a decay between 0.01 and 16, as Qwen3.5 starts its training."""
    return math.log(0.01 + 15.99 * generator.random())


def text_tensors(prefix: str) -> Iterator[Tensor]:
    """The language model's tensors; `prefix` ends in a full stop."""
    vocabulary = (tokenizer.SIZE, HIDDEN)
    # Readable output: what is no printable text gets the logit 0, which is never among the best.
    yield Tensor("lm_head.weight", vocabulary, noise(WIDTH), tokenizer.unprintable())
    yield Tensor(f"{prefix}embed_tokens.weight", vocabulary, noise(WIDTH))
    yield Tensor(f"{prefix}norm.weight", (HIDDEN,), zeros)
    for index, kind in enumerate(LAYERS):
        layer = f"{prefix}layers.{index}."
        shapes = _LINEAR if kind == "linear_attention" else _FULL
        for name, (shape, fill) in {**_BLOCK, **shapes}.items():
            yield Tensor(layer + name, shape, fill)


_KEYS = LINEAR_KEY_HEADS * LINEAR_HEAD
_VALUES = LINEAR_VALUE_HEADS * LINEAR_HEAD
_MIXED = 2 * _KEYS + _VALUES
_BLOCK: dict[str, tuple[tuple[int, ...], Fill]] = {
    "input_layernorm.weight": ((HIDDEN,), zeros),
    "post_attention_layernorm.weight": ((HIDDEN,), zeros),
    "mlp.gate_proj.weight": ((FEED_FORWARD, HIDDEN), noise(WIDTH)),
    "mlp.up_proj.weight": ((FEED_FORWARD, HIDDEN), noise(WIDTH)),
    "mlp.down_proj.weight": ((HIDDEN, FEED_FORWARD), noise(WIDTH)),
}
_LINEAR: dict[str, tuple[tuple[int, ...], Fill]] = {
    "linear_attn.A_log": ((LINEAR_VALUE_HEADS,), decay),
    "linear_attn.dt_bias": ((LINEAR_VALUE_HEADS,), ones),
    "linear_attn.norm.weight": ((LINEAR_HEAD,), ones),
    "linear_attn.conv1d.weight": ((_MIXED, 1, CONVOLUTION), noise(WIDTH)),
    "linear_attn.in_proj_a.weight": ((LINEAR_VALUE_HEADS, HIDDEN), noise(WIDTH)),
    "linear_attn.in_proj_b.weight": ((LINEAR_VALUE_HEADS, HIDDEN), noise(WIDTH)),
    "linear_attn.in_proj_qkv.weight": ((_MIXED, HIDDEN), noise(WIDTH)),
    "linear_attn.in_proj_z.weight": ((_VALUES, HIDDEN), noise(WIDTH)),
    "linear_attn.out_proj.weight": ((HIDDEN, _VALUES), noise(WIDTH)),
}
_FULL: dict[str, tuple[tuple[int, ...], Fill]] = {
    "self_attn.q_norm.weight": ((HEAD,), zeros),
    "self_attn.k_norm.weight": ((HEAD,), zeros),
    # Twice: the second half gates the attention's output.
    "self_attn.q_proj.weight": ((2 * HEADS * HEAD, HIDDEN), noise(WIDTH)),
    "self_attn.k_proj.weight": ((KV_HEADS * HEAD, HIDDEN), noise(WIDTH)),
    "self_attn.v_proj.weight": ((KV_HEADS * HEAD, HIDDEN), noise(WIDTH)),
    "self_attn.o_proj.weight": ((HIDDEN, HEADS * HEAD), noise(WIDTH)),
}


def vision_tensors(prefix: str) -> Iterator[Tensor]:
    """The vision tower's tensors."""
    wide = VISION_HIDDEN * MERGE**2
    yield Tensor(
        f"{prefix}pos_embed.weight", (VISION_POSITIONS, VISION_HIDDEN), noise(VISION_WIDTH)
    )
    yield from _affine(f"{prefix}patch_embed.proj", VISION_HIDDEN, 3, 2, PATCH, PATCH)
    yield from _norm(f"{prefix}merger.norm")
    yield from _affine(f"{prefix}merger.linear_fc1", wide, wide)
    yield from _affine(f"{prefix}merger.linear_fc2", HIDDEN, wide)
    for index in range(VISION_DEPTH):
        block = f"{prefix}blocks.{index}."
        yield from _norm(f"{block}norm1")
        yield from _norm(f"{block}norm2")
        yield from _affine(f"{block}attn.qkv", 3 * VISION_HIDDEN, VISION_HIDDEN)
        yield from _affine(f"{block}attn.proj", VISION_HIDDEN, VISION_HIDDEN)
        yield from _affine(f"{block}mlp.linear_fc1", FEED_FORWARD, VISION_HIDDEN)
        yield from _affine(f"{block}mlp.linear_fc2", VISION_HIDDEN, FEED_FORWARD)


def _affine(name: str, out: int, *into: int) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (out, *into), noise(VISION_WIDTH))
    yield Tensor(f"{name}.bias", (out,), zeros)


def _norm(name: str) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (VISION_HIDDEN,), ones)
    yield Tensor(f"{name}.bias", (VISION_HIDDEN,), zeros)
