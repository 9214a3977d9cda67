"""How vLLM divides the memory of its cache, so that its own figures can be foretold.

Sources, alike in 0.19.1, 0.32.0 and 0.33.0: vllm/v1/core/kv_cache_utils.py, in 0.33.0
kv_cache_planning.py (_get_kv_cache_groups_uniform_page_size, get_max_concurrency_…),
vllm/v1/kv_cache_interface.py (FullAttentionSpec, MambaSpec),
vllm/model_executor/layers/mamba/mamba_utils.py (gated_delta_net_state_shape) and, for the size of
a block, HybridAttentionMambaModelConfig in 0.19.1, Platform._align_hybrid_block_size later.
"""

from dataclasses import dataclass, replace

from manifests.fit.shape import Linear, Shape

#: Tokens in a block of the cache, and of what it is a multiple. FlashAttention and Triton take
#: multiples of 16; vllm/platforms/cpu.py chooses 128.
GPU_BLOCK, CPU_BLOCK = 16, 128
_FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class Pages:
    """The blocks of one GPU's cache.

    A block holds `tokens` of every attention layer of a group, or one state of every linear layer
    of a group; all are made equally large, and all groups take theirs from one pool.
    """

    tokens: int
    bytes: int  # of one block, all layers of a group together
    attention: int  # groups of attention layers
    linear: int  # groups of linear layers
    states: int  # blocks that each linear group holds for one request

    def count(self, memory: int) -> int:
        """Blocks in `memory` bytes."""
        return max(0, memory) // self.bytes

    def blocks(self, length: int) -> int:
        """Blocks that one request of `length` tokens takes."""
        return self.attention * -(-length // self.tokens) + self.linear * self.states

    def requests(self, memory: int, length: int) -> int:
        """Whole requests of `length` tokens that `memory` bytes hold at a time."""
        return self._usable(memory) // self.blocks(length)

    def longest(self, memory: int) -> int:
        """Tokens of the longest request that `memory` bytes hold; 0 where none."""
        left = self._usable(memory) - self.linear * self.states
        return max(0, left) // self.attention * self.tokens

    def needed(self, length: int) -> int:
        """Bytes of the smallest cache that holds one request of `length` tokens."""
        return (self.blocks(length) + 1) * self.bytes

    def _usable(self, memory: int) -> int:
        # BlockPool keeps one block, to which unused entries of a block table point.
        return max(0, self.count(memory) - 1)


def pages(
    shape: Shape, tensor_parallel: int = 1, block: int = GPU_BLOCK, prefix_caching: bool = True
) -> Pages:
    """How the cache of one GPU of `tensor_parallel` is divided.

    `prefix_caching` makes a linear layer keep two states (mamba_cache_mode "align"), else one.
    """
    token = token_bytes(shape, tensor_parallel)
    if shape.linear is None:
        return Pages(block, shape.layers * block * token, attention=1, linear=0, states=0)
    state = state_bytes(shape.linear, shape.width, tensor_parallel)
    tokens = block * -(-state // (block * token))
    fewer, more = sorted((shape.layers, shape.linear.layers))
    group = more if 2 * more < 3 * fewer else fewer  # vLLM: max < 1.5 min
    return Pages(
        tokens=tokens,
        bytes=tokens * token * group,
        attention=-(-shape.layers // group),
        linear=-(-shape.linear.layers // group),
        states=2 if prefix_caching else 1,
    )


def with_cpu_states(shape: Shape) -> Shape:
    """The shape with the states that a CPU keeps of it.

    Where a model leaves their type open, vllm/platforms/cpu.py takes float32 on a processor with
    AVX512_BF16 and the model's type on another: the larger is counted.
    """
    if shape.linear is None:
        return shape
    state = max(shape.linear.state_bytes, _FLOAT32)
    return replace(shape, linear=replace(shape.linear, state_bytes=state))


def token_bytes(shape: Shape, tensor_parallel: int = 1) -> int:
    """Bytes that a token takes in one attention layer of one GPU: a key and a value per head."""
    # Heads are copied where there are fewer than GPUs.
    heads = max(1, shape.kv_heads // tensor_parallel)
    return 2 * heads * shape.head_width * shape.width


def state_bytes(linear: Linear, width: int, tensor_parallel: int = 1) -> int:
    """Bytes of one linear layer's state for one sequence on one GPU.

    `width`: bytes of a value of the convolution's inputs, which are kept for the tokens to come.
    """
    keys, values = linear.key_heads * linear.key_width, linear.value_heads * linear.value_width
    convolution = (2 * keys + values) * (linear.kernel - 1) * width
    recurrent = values * linear.key_width * linear.state_bytes
    return (convolution + recurrent) // tensor_parallel
