"""Into how many parts vLLM can split a model (tensor parallel), one for each GPU."""

from collections.abc import Iterator

from manifests.fit.shape import Shape


def split(shape: Shape, gpus: int) -> int:
    """The greatest number of parts, up to `gpus`, that the model can be split into."""
    return next(parts for parts in range(gpus, 0, -1) if not any(obstacles(shape, parts)))


def obstacles(shape: Shape, parts: int) -> Iterator[str]:
    """Why the model can't be split into so many parts, a sentence each; one part is always fine.

    Sources: vllm/config/model.py (verify_with_parallel_config) and, in vllm/model_executor/layers,
    linear.py (QKVParallelLinear), mamba/mamba_utils.py (gated_delta_net_state_shape), fused_moe
    and quantization/utils/fp8_utils.py (validate_fp8_block_shape and its _moe).
    """
    if parts == 1:
        return
    counts = [("attention heads", shape.heads)]
    if shape.linear:
        counts.append(("linear-attention key heads", shape.linear.key_heads))
        counts.append(("linear-attention value heads", shape.linear.value_heads))
    for name, count in counts:
        if count % parts:
            yield f"{count} {name} can't be divided by {parts}"
    if shape.kv_heads % parts and parts % shape.kv_heads:
        yield f"{shape.kv_heads} key-value heads can neither be divided by {parts} nor copied"
    for size in dict.fromkeys(shape.intermediates):
        if size % parts:
            yield f"the feed-forward width {size} can't be divided by {parts}"
        elif shape.block and size // parts % shape.block:
            yield (
                f"a part of {size // parts} of the feed-forward width {size} is no multiple of "
                f"the {shape.block} that share a scale"
            )
