"""What a model's config.json says about the memory that serving it takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from manifests.errors import IntegrityError
from manifests.fit.count import parameters
from manifests.fit.tables import tables

#: Bytes of one value, by torch's names.
_WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4}
_FULL, _LINEAR = "full_attention", "linear_attention"
#: More than any measure of a model, bytes of its weights included.
_MOST = 1 << 50


@dataclass(frozen=True)
class Linear:
    """Gated-delta-net layers: one state of fixed size for each sequence, whatever its length."""

    layers: int
    key_heads: int
    value_heads: int
    key_width: int  # values of one head
    value_width: int
    kernel: int  # of the convolution before it, in tokens
    state_bytes: int  # of one value of the recurrent state


@dataclass(frozen=True)
class Vision:
    """The part that reads pictures."""

    depth: int
    hidden: int
    intermediate: int
    merge: int  # patches on each side of one token

    def weights(self, width: int) -> int:
        """Bytes of its weights, roughly: attention and feed-forward; `width` bytes a value."""
        return width * self.depth * (4 * self.hidden**2 + 2 * self.hidden * self.intermediate)


@dataclass(frozen=True)
class Shape:
    """The measures of a model. Layers with keys and values are `layers`; others in `linear`."""

    architecture: str
    weights: int  # bytes on disk
    width: int  # bytes of one activation, and of one key or value in the cache
    layers: int
    heads: int
    kv_heads: int
    head_width: int  # values of one head
    hidden: int
    vocabulary: int
    intermediates: tuple[int, ...]  # widths of the feed-forward parts: dense, expert, shared expert
    max_length: int  # tokens
    linear: Linear | None = None
    vision: Vision | None = None
    quantisation: str = ""  # "fp8", "gptq", …
    block: int = 0  # values on each side of a block of weights with a scale of its own; 0: no such

    @classmethod
    def from_config(cls, config: Mapping[str, Any], weights: int = 0) -> Self | None:
        """Read a config.json; `weights` is the sum of the sizes of the safetensors files.

        Without them the parameters are counted, which can't be done for quantised weights.

        None where the class is not one of those whose cache is known, or where the configuration
        lacks a measure: no figure is better than one that was made up.
        """
        names = config.get("architectures")
        architecture = names[0] if isinstance(names, list) and names else ""
        # Multimodal classes keep the language model's settings one level down.
        text = config.get("text_config")
        merged = {**config, **text} if isinstance(text, dict) else dict(config)
        if architecture not in tables().architectures:
            return None
        try:
            return cls._read(architecture, config, merged, weights)
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def _read(
        cls, architecture: str, config: Mapping[str, Any], text: Mapping[str, Any], weights: int
    ) -> Self:
        full, linear = _layers(text)
        hidden, heads = _number(text, "hidden_size"), _number(text, "num_attention_heads")
        # float32 is served in 16 bits (vllm/config/model.py: _resolve_auto_dtype).
        width = min(2, _width(text.get("dtype") or text.get("torch_dtype")))
        method = config.get("quantization_config") or text.get("quantization_config")
        method = method if isinstance(method, dict) else {}
        vision = config.get("vision_config")
        return cls(
            architecture=architecture,
            weights=weights or _counted(text, vision, full, bool(method)) * width,
            width=width,
            layers=full,
            heads=heads,
            kv_heads=_number(text, "num_key_value_heads"),
            head_width=_number(text, "head_dim", hidden // heads),
            hidden=hidden,
            vocabulary=_number(text, "vocab_size"),
            intermediates=_intermediates(text),
            max_length=_number(text, "max_position_embeddings"),
            linear=_linear(text, linear, width) if linear else None,
            vision=_vision(vision) if isinstance(vision, dict) else None,
            quantisation=str(method.get("quant_method", "")),
            block=max(map(int, method.get("weight_block_size") or (0,))),
        )

    @property
    def all_layers(self) -> int:
        """Layers of both kinds, as num_hidden_layers counts them."""
        return self.layers + (self.linear.layers if self.linear else 0)

    def check(self, where: str) -> None:
        """Refuse measures that no model has: they are divided by, and come from a file.

        Raises IntegrityError.
        """
        linear, vision = self.linear, self.vision
        parts = [self, *(part for part in (linear, vision) if part is not None)]
        for part in parts:
            for name, value in asdict(part).items():
                least = 0 if name in _MAY_BE_NOTHING else 1
                numbers = value if isinstance(value, tuple) else (value,)
                if not numbers or any(
                    isinstance(number, int) and not least <= number <= _MOST for number in numbers
                ):
                    raise IntegrityError(f"{where}: no model has a {name} of {value!r:.40}")


#: Fields of a Shape that are 0 where there is no such thing, or where it isn't known.
_MAY_BE_NOTHING = frozenset({"weights", "block"})


def _counted(text: Mapping[str, Any], vision: Any, full: int, quantised: bool) -> int:
    if quantised:
        raise ValueError("how much of the weights is quantised is not said")
    eyes = _numbers(vision) if isinstance(vision, dict) else None
    return parameters(_numbers(text), eyes, full)


def _numbers(text: Mapping[str, Any]) -> dict[str, int]:
    return {name: value for name, value in text.items() if isinstance(value, int) and value >= 0}


def _layers(text: Mapping[str, Any]) -> tuple[int, int]:
    """Layers of full and of linear attention; ValueError where there are others."""
    count = _number(text, "num_hidden_layers")
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        full, linear = kinds.count(_FULL), kinds.count(_LINEAR)
    elif "linear_num_value_heads" in text:
        # transformers' Qwen3_5TextConfig: the last of each `interval` layers.
        full = count // _number(text, "full_attention_interval")
        linear = count - full
    else:
        full, linear = count, 0
    if full + linear != count or not full or text.get("use_sliding_window"):
        raise ValueError("layers of another kind")
    return full, linear


def _linear(text: Mapping[str, Any], layers: int, width: int) -> Linear:
    return Linear(
        layers=layers,
        key_heads=_number(text, "linear_num_key_heads"),
        value_heads=_number(text, "linear_num_value_heads"),
        key_width=_number(text, "linear_key_head_dim"),
        value_width=_number(text, "linear_value_head_dim"),
        kernel=_number(text, "linear_conv_kernel_dim"),
        # vLLM's Qwen3_5ForConditionalGenerationConfig takes this for --mamba-ssm-cache-dtype auto.
        state_bytes=_width(text["mamba_ssm_dtype"]) if text.get("mamba_ssm_dtype") else width,
    )


def _vision(vision: Mapping[str, Any]) -> Vision:
    return Vision(
        depth=_number(vision, "depth"),
        hidden=_number(vision, "hidden_size"),
        intermediate=_number(vision, "intermediate_size"),
        merge=_number(vision, "spatial_merge_size", 2),
    )


def _intermediates(text: Mapping[str, Any]) -> tuple[int, ...]:
    # A mixture of experts may state an intermediate_size that none of its layers has.
    names: tuple[str, ...] = ("intermediate_size",)
    if text.get("num_experts"):
        names = ("moe_intermediate_size", "shared_expert_intermediate_size")
    found = tuple(_number(text, name) for name in names if text.get(name))
    if not found:
        raise ValueError("no width of the feed-forward part")
    return found


def _number(text: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = text.get(name)
    if value is None and default is not None:
        value = default
    if type(value) is not int or value <= 0:
        raise ValueError(name)
    return value


def _width(dtype: Any) -> int:
    return _WIDTHS[str(dtype).removeprefix("torch.")]
