"""The two classes that Qwen3.5 comes as, and their JSON documents.

Settings as transformers 5.19 writes them (models/qwen3_5/configuration_qwen3_5.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bundler.tinymodel import tokenizer
from bundler.tinymodel.shape import (
    CONTEXT,
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
    WIDTH,
)
from bundler.tinymodel.tensors import Tensor, text_tensors, vision_tensors


@dataclass(frozen=True)
class Architecture:
    """One of the two classes that Qwen3.5 comes as."""

    name: str  # as in config.json
    tensors: Callable[[], Iterator[Tensor]]
    files: Callable[[], dict[str, Any]]  # JSON documents by file name


def _causal_files() -> dict[str, Any]:
    return {
        "config.json": {
            "architectures": ["Qwen3_5ForCausalLM"],
            "dtype": "bfloat16",
            **_text_config({"rope_theta": 10000.0}),
        }
    }


def _conditional_tensors() -> Iterator[Tensor]:
    yield from text_tensors("model.language_model.")
    yield from vision_tensors("model.visual.")


def _conditional_files() -> dict[str, Any]:
    token = tokenizer.identifier
    rope = {"rope_theta": 10000000.0, "mrope_section": [3, 3, 2], "mrope_interleaved": True}
    picture = {
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": MERGE,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
    }
    return {
        "config.json": {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "dtype": "bfloat16",
            "model_type": "qwen3_5",
            "tie_word_embeddings": False,
            "image_token_id": token("<|image_pad|>"),
            "video_token_id": token("<|video_pad|>"),
            "vision_start_token_id": token("<|vision_start|>"),
            "vision_end_token_id": token("<|vision_end|>"),
            "text_config": _text_config(rope),
            "vision_config": {
                "model_type": "qwen3_5_vision",
                "depth": VISION_DEPTH,
                "hidden_size": VISION_HIDDEN,
                "hidden_act": "gelu_pytorch_tanh",
                "intermediate_size": FEED_FORWARD,
                "in_channels": 3,
                "num_heads": 2,
                "num_position_embeddings": VISION_POSITIONS,
                "out_hidden_size": HIDDEN,
                "patch_size": PATCH,
                "spatial_merge_size": MERGE,
                "temporal_patch_size": 2,
            },
        },
        "preprocessor_config.json": {
            **picture,
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        },
        "video_preprocessor_config.json": {
            **picture,
            "video_processor_type": "Qwen3VLVideoProcessor",
            "size": {"longest_edge": 25165824, "shortest_edge": 4096},
        },
    }


def _text_config(rope: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "qwen3_5_text",
        "vocab_size": tokenizer.SIZE,
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": len(LAYERS),
        "layer_types": list(LAYERS),
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "linear_num_key_heads": LINEAR_KEY_HEADS,
        "linear_num_value_heads": LINEAR_VALUE_HEADS,
        "linear_key_head_dim": LINEAR_HEAD,
        "linear_value_head_dim": LINEAR_HEAD,
        "linear_conv_kernel_dim": CONVOLUTION,
        # As Qwen publishes it. Where it is left open, vLLM decides by the kind of processor.
        "mamba_ssm_dtype": "float32",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": WIDTH,
        "max_position_embeddings": CONTEXT,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25, **rope},
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.identifier(tokenizer.END),
        "pad_token_id": tokenizer.identifier(tokenizer.PADDING),
    }


ARCHITECTURES = {
    "causal": Architecture("Qwen3_5ForCausalLM", lambda: text_tensors("model."), _causal_files),
    "conditional": Architecture(
        "Qwen3_5ForConditionalGeneration", _conditional_tensors, _conditional_files
    ),
}
