"""The tiny model's measures; its weights and its configuration are made from the same ones."""

HIDDEN, FEED_FORWARD = 64, 128
LAYERS = ("linear_attention", "linear_attention", "linear_attention", "full_attention")
HEADS, KV_HEADS, HEAD = 2, 1, 64
#: vLLM's gated-delta-net kernels want heads of 128.
LINEAR_KEY_HEADS, LINEAR_VALUE_HEADS, LINEAR_HEAD, CONVOLUTION = 1, 2, 128, 4
CONTEXT = 4096  # tokens
VISION_HIDDEN, VISION_DEPTH, VISION_POSITIONS, PATCH, MERGE = 64, 2, 64, 16, 2

#: Wide enough that greedy decoding does not repeat one token.
WIDTH = 0.2
#: transformers' default for the vision tower.
VISION_WIDTH = 0.02
