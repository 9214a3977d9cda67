"""How many parameters a configuration describes: for where no weight files are there to be seen.

Norms and biases are left out; they are far below 1 %. Layers as transformers builds them
(models/qwen3_5/modeling_qwen3_5.py, models/qwen3/modeling_qwen3.py).
"""

from collections.abc import Mapping


def parameters(text: Mapping[str, int], vision: Mapping[str, int] | None, full: int) -> int:
    """Parameters of text, vision and MTP parts; `full` is the number of layers of full attention.

    Raises KeyError where a measure is missing.
    """
    hidden, layers = text["hidden_size"], text["num_hidden_layers"]
    attention, forward = _attention(text), _feed_forward(text)
    words = text["vocab_size"] * hidden
    total = full * attention + layers * forward + words
    if full < layers:
        total += (layers - full) * _linear_attention(text)
    if not text.get("tie_word_embeddings"):
        total += words
    if vision is not None:
        total += _vision(vision, hidden)
    # A head for multi-token prediction is a layer whose input is two states wide.
    return total + text.get("mtp_num_hidden_layers", 0) * (attention + forward + 2 * hidden**2)


def _attention(text: Mapping[str, int]) -> int:
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    width = text.get("head_dim") or hidden // heads
    queries, cached = heads * width, text["num_key_value_heads"] * width
    gates = queries if text.get("attn_output_gate") else 0
    return hidden * (queries + gates + 2 * cached) + queries * hidden


def _linear_attention(text: Mapping[str, int]) -> int:
    heads = text["linear_num_value_heads"]
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = heads * text["linear_value_head_dim"]
    # Queries and keys; values, their gates and the way out; decay and strength of each head.
    return text["hidden_size"] * (2 * keys + 3 * values + 2 * heads)


def _feed_forward(text: Mapping[str, int]) -> int:
    hidden, experts = text["hidden_size"], text.get("num_experts", 0)
    if not experts:
        return 3 * hidden * text["intermediate_size"]
    expert = 3 * hidden * text["moe_intermediate_size"] + hidden  # and its row of the router
    shared = 3 * hidden * text.get("shared_expert_intermediate_size", 0)
    return experts * expert + shared


def _vision(vision: Mapping[str, int], hidden: int) -> int:
    width = vision["hidden_size"]
    merged = width * vision["spatial_merge_size"] ** 2
    block = 4 * width**2 + 2 * width * vision["intermediate_size"]
    return vision["depth"] * block + merged**2 + merged * hidden
