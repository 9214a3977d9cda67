"""The arithmetic of vLLM's cache, held against what vLLM itself has logged on real GPUs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.fit import CPU_BLOCK, Shape, pages
from tests.unit.test_manifests_fit_shape import GIB, PUBLISHED, config


def shape(name):
    return Shape.from_config(config(name), 1)


@pytest.mark.parametrize(
    ("name", "parts", "tokens", "token_bytes"),
    [
        # A state of 4B, 9B: 32 x 128 x 128 x 4 bytes + (2 x 2048 + 4096) x 3 x 2 = 2,146,304; a
        # token: 2 x 4 heads x 256 x 2 = 4096; 2,146,304 / 4096 = 524, the next multiple of 16: 528.
        # vLLM: "Setting attention block size to 528 tokens". A token in all 8 layers: 32 KiB.
        ("Qwen3.5-4B", 1, 528, 32 << 10),
        ("Qwen3.5-9B", 1, 528, 32 << 10),
        # 16 x 128 x 128 x 4 + 6144 x 6 = 1,085,440 / 2048 = 530; logged: 544. 6 layers: 12 KiB.
        ("Qwen3.5-0.8B", 1, 544, 12 << 10),
        # 48 x 128 x 128 x 4 + 10240 x 6 = 3,207,168 / 4096 = 783; logged: 784. 16 layers: 64 KiB.
        ("Qwen3.5-27B", 1, 784, 64 << 10),
        # As 9B, but two heads, so 2048 a token: 1048 → 1056. Logged: 1056, also when split in two
        # (half a state, half the heads).
        ("Qwen3.5-35B-A3B", 1, 1056, 20 << 10),
        ("Qwen3.5-35B-A3B", 2, 1056, 10 << 10),
        # Split in four, each GPU still has one head: a quarter of a state, half of the token.
        ("Qwen3.5-35B-A3B", 4, 528, 10 << 10),
        ("Qwen3.5-397B-A17B", 8, 528, 15 << 10),
        # Without linear layers: 2 x 8 heads x 128 x 2 bytes in each of 36 layers.
        ("Qwen3-8B", 1, 16, 144 << 10),
    ],
)
def test_size_of_a_block_and_of_a_token(name, parts, tokens, token_bytes):
    found = pages(shape(name), parts)
    assert found.tokens == tokens
    assert found.attention * found.bytes == token_bytes * tokens


@pytest.mark.parametrize(
    ("name", "caching", "gib", "length", "tokens"),
    [
        # vLLM 0.19.0, L40S: "2.52x" of 262144: 1258 blocks, 497 + 3.
        ("Qwen3.5-9B", False, 20.27, 262144, 2.516 * 262144),
        # vLLM 0.21 or later, 48 GB: "163,225 tokens … 159.40x" of 1024: 797 blocks, 2 + 3.
        ("Qwen3.5-4B", False, 12.85, 1024, 163_225),
        # vLLM 0.29.0, L4, prefix caching: "267,842 tokens … 8.17x" of 32768: 564 blocks, 63 + 6.
        ("Qwen3.5-4B", True, 9.10, 32768, 267_842),
        # "5,788,118 tokens … 22.08x" of 262144: 482 + 6.
        ("Qwen3.5-0.8B", True, 67.08, 262144, 5_788_118),
    ],
)
def test_what_vllm_logged(name, caching, gib, length, tokens):
    found = pages(shape(name), prefix_caching=caching)
    blocks = found.count(int(gib * GIB))
    assert blocks * length / found.blocks(length) == pytest.approx(tokens, rel=0.002)


def test_what_vllm_refused():
    # vLLM 0.26.0, L40S, 27B in FP8: "131072 … 8.18 GiB KV cache is needed, which is larger than
    # the available (7.04 GiB) … the estimated maximum model length is 112896". Newer releases
    # keep one block back there too, as we do.
    found = pages(shape("Qwen3.5-27B-FP8"), prefix_caching=False)
    assert found.blocks(131072) * found.bytes / GIB == pytest.approx(8.18, abs=0.005)
    assert found.longest(int(7.04 * GIB)) == 112896 - found.tokens
    assert found.requests(int(7.04 * GIB), 112896 - found.tokens) == 1
    assert found.requests(int(7.04 * GIB), 112896) == 0


def test_the_cpu_has_larger_blocks():
    assert pages(shape("Qwen3.5-9B"), block=CPU_BLOCK).tokens == 640  # 524 → 5 x 128


def test_layers_are_grouped_by_the_rarer_kind():
    # As in vLLM: 7 layers, 4 of them full: groups of 4 (3 x 1.5 > 4), so one of each kind.
    found = pages(_layers("FLFLFLF"))
    assert (found.attention, found.linear) == (1, 1)
    assert found.bytes == 4 * 528 * 4096
    # 5 linear and 2 full: groups of 2, and the last of three groups is padded.
    found = pages(_layers("LLFLLFL"))
    assert (found.attention, found.linear) == (1, 3)
    # More full than linear layers: groups of 2 again.
    found = pages(_layers("FFLFFLF"))
    assert (found.attention, found.linear) == (3, 1)


def _layers(kinds):
    names = {"L": "linear_attention", "F": "full_attention"}
    document = config("Qwen3.5-9B")
    document["text_config"]["layer_types"] = [names[kind] for kind in kinds]
    document["text_config"]["num_hidden_layers"] = len(kinds)
    return Shape.from_config(document, 1)


@settings(max_examples=60)
@given(
    name=st.sampled_from(PUBLISHED),
    parts=st.sampled_from([1, 2, 4]),
    caching=st.booleans(),
    memory=st.integers(-(1 << 33), 1 << 38),
    length=st.integers(1, 1 << 20),
)
def test_longest_and_requests_agree(name, parts, caching, memory, length):
    found = pages(shape(name), parts, prefix_caching=caching)
    assert (found.requests(memory, length) > 0) == (length <= found.longest(memory))
    assert (found.requests(memory, length) > 0) == (found.needed(length) <= memory)
    assert found.count(memory) * found.bytes <= max(0, memory)
