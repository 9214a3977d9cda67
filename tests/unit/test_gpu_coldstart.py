"""What tests/gpu/isolated reads out of a server's log."""

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu.isolated.coldstart import chosen, phases, said, split
from tests.gpu.isolated.fitted import compare, value_of
from tests.unit.test_manifests_fit_shape import CONFIGS

DATA = Path(__file__).resolve().parents[1] / "data/gpu"
#: vLLM 0.20.2 on an H200, Qwen3.5-4B with noise for weights, eager; cut off before it listened.
EAGER = (DATA / "vllm-0.20.2-h200-eager.log").read_text()
#: The lines that only a start with CUDA graphs has: worded as in the source of 0.20.2
#: (vllm/compilation, vllm/v1/worker/gpu_model_runner.py, vllm/v1/engine/core.py), times made up.
GRAPHS = """\
(EngineCore pid=1) INFO 11-30 15:00:20 [v1/engine/core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: …
(EngineCore pid=1) INFO 11-30 15:00:24 [v1/worker/gpu_model_runner.py:4777] Starting to load model /models/noise...
(EngineCore pid=1) INFO 11-30 15:00:25 [model_executor/model_loader/default_loader.py:384] Loading weights took 0.61 seconds
(EngineCore pid=1) INFO 11-30 15:00:26 [v1/worker/gpu_model_runner.py:4879] Model loading took 3.2 GiB memory and 0.800000 seconds
(EngineCore pid=1) INFO 11-30 15:00:36 [compilation/backends.py:1128] Dynamo bytecode transform time: 6.25 s
(EngineCore pid=1) INFO 11-30 15:00:46 [compilation/backends.py:391] Compiling a graph for compile range (1, 8192) takes 12.50 s
(EngineCore pid=1) INFO 11-30 15:00:57 [compilation/monitor.py:53] torch.compile took 30.90 s in total
(EngineCore pid=1) INFO 11-30 15:02:08 [compilation/monitor.py:81] Initial profiling/warmup run took 71.40 s
(EngineCore pid=1) INFO 11-30 15:02:21 [v1/worker/gpu_worker.py:440] Available KV cache memory: 114.09 GiB
(EngineCore pid=1) INFO 11-30 15:02:24 [v1/worker/gpu_model_runner.py:6133] Graph capturing finished in 3 secs, took 0.42 GiB
(EngineCore pid=1) INFO 11-30 15:02:25 [v1/engine/core.py:289] init engine (profile, create kv cache, warmup model) took 118.60 s (compilation: 30.90 s)
(APIServer pid=0) INFO 11-30 15:02:27 [entrypoints/openai/api_server.py:602] Starting vLLM server on unix:server-1.sock
"""  # noqa: E501 - as they are


def at(text: str) -> float:
    """Seconds since the epoch; the log is in local time."""
    return datetime.strptime(f"2026-{text}", "%Y-%m-%d %H:%M:%S").timestamp()


def test_a_recorded_start_is_taken_apart() -> None:
    found = split(EAGER, at("11-30 22:23:04"), at("11-30 22:24:20"))
    assert found["seconds"] == 76.0
    assert found["phases"] == {
        "imports": 8.0,
        "configuration": 19.0,
        "engine_process": 12.0,
        "device": 4.0,
        "weights": 1.0,
        "profile": 19.0,
        "answer": 13.0,  # all that came after the last line that is known
    }
    assert found["said"] == {"weights": 0.37, "memory_profile": 18.8}


def test_what_was_chosen_is_told_once() -> None:
    found = chosen(EAGER + EAGER)
    assert "Using FlashAttention version 3" in found
    assert "Using Triton/FLA GDN prefill kernel" in found
    assert len(found) == len(set(found))
    assert not any("max model len" in line for line in found)


def test_graphs_have_phases_and_counts_of_their_own() -> None:
    found = split(GRAPHS, at("11-30 15:00:00"), at("11-30 15:02:30"))
    assert found["phases"]["profile"] == 115.0
    assert found["phases"]["capture"] == 3.0
    assert found["phases"]["answer"] == 3.0
    assert sum(found["phases"].values()) == found["seconds"]
    assert found["said"] == {
        "weights": 0.8,
        "read_weights": 0.61,
        "dynamo": 6.25,
        "inductor": 12.5,
        "torch_compile": 30.9,
        "warm_up": 71.4,
        "capture": 3.0,
        "init_engine": 118.6,
        "compilation": 30.9,
    }


def test_several_graphs_from_the_cache_are_added_up() -> None:
    line = (
        "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took {} s"
    )
    assert said(line.format("1.250") + "\n" + line.format("0.5")) == {"compiled_from_cache": 1.75}


@given(st.lists(st.sampled_from(GRAPHS.splitlines() + EAGER.splitlines() + ["", "words"])))
def test_phases_add_up_whatever_the_log_holds(lines: list[str]) -> None:
    begun, ended = at("11-30 15:00:00"), at("11-30 22:30:00")
    found = phases("\n".join(lines), begun, ended)
    assert sum(found.values()) == pytest.approx(ended - begun)
    assert all(value >= 0 for value in found.values())


def test_the_fit_is_held_against_the_log(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((CONFIGS / "Qwen3.5-4B.json").read_bytes())
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(9_320_000_000)  # manifests/fit.toml: what the published one has
    words = ["--max-model-len", "32768", "--gpu-memory-utilization", "0.90"]
    flags = ["--enable-prefix-caching", "--language-model-only", "--enforce-eager"]
    found = compare(tmp_path, [*words, *flags], EAGER, 150_754_820_096)
    assert found["measured"]["tokens"] == 3_362_281
    assert found["within_5_per_cent"]
    assert found["ratio"]["tokens"] == pytest.approx(0.9959, abs=0.001)
    half = compare(tmp_path, ["--gpu-memory-utilization", "0.45", *flags], EAGER, 150_754_820_096)
    assert not half["within_5_per_cent"]


def test_the_last_of_an_option_counts() -> None:
    words = ["--a", "1", "--b", "2", "--a", "3"]
    assert value_of(words, "--a", "9") == "3"
    assert value_of(words, "--c", "9") == "9"
    assert value_of([*words, "--c"], "--c", "9") == "9"
