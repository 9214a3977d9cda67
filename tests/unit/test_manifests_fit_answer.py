"""Whether a model fits, held against public logs of vLLM and against sums done by hand."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import gpu
from manifests.canonical import dumps
from manifests.fit import Settings, Shape, fit, fit_cpu, shown
from manifests.fit.split import obstacles, split
from manifests.fit.tables import tables
from tests.unit.test_manifests_fit_shape import GIB, PUBLISHED, config

WEIGHTS = {
    **{found.repository.rpartition("/")[2]: found.weights for found in tables().checkpoints},
    "Qwen3-8B": 16_400_000_000,
    "Qwen3-14B": 29_500_000_000,
}
#: Memory as nvidia-smi says it.
RTX4090, L4, L40S, H100, H200 = (mib << 20 for mib in (24564, 23034, 46068, 81559, 143771))


def shape(name):
    return Shape.from_config(config(name), WEIGHTS[name])


@pytest.mark.parametrize(
    ("name", "gpu", "utilization", "settings", "gib"),
    [
        # "Available KV cache memory: … GiB" of the logs that manifests/fit.toml speaks of.
        ("Qwen3.5-9B", L40S, 90, Settings(batch_tokens=8192), 20.27),
        ("Qwen3.5-4B", int(47.56 * GIB), 50, Settings(), 12.85),
        ("Qwen3.5-27B-FP8", L40S, 86, Settings(), 7.04),
        ("Qwen3.5-27B-FP8", H100, 90, Settings(sequences=256), 39.67),
        ("Qwen3.5-0.8B", H100, 92, Settings(), 67.08),
        ("Qwen3.5-4B", L4, 92, Settings(), 9.10),
    ],
)
def test_what_is_left_for_the_cache_on_real_gpus(name, gpu, utilization, settings, gib):
    found = fit(shape(name), gpu_memory=gpu, utilization=utilization, settings=settings)
    assert found.room.cache / GIB == pytest.approx(gib, rel=0.05)


@pytest.mark.parametrize(
    ("product", "gib", "mib"),
    [
        # As nvidia-smi prints them.
        ("L4", 24, 23034),
        ("A10", 24, 23028),
        ("T4", 16, 15360),
        ("L40S", 48, 46068),
        ("RTX A6000", 48, 49140),
        ("A100", 80, 81920),
        ("H100", 80, 81559),
        ("H200", 141, 143771),
    ],
)
def test_what_nvidia_smi_shows_of_a_product(product, gib, mib):
    assert shown(product, gib * GIB) == pytest.approx(mib << 20, rel=0.005)


def test_every_product_with_a_rule_of_its_own_is_known():
    for product in tables().ecc_takes_memory:
        assert gpu.product(product).name == product


def test_27b_on_an_h100_by_hand():
    found = fit(shape("Qwen3.5-27B"), gpu_memory=H100)
    # 81559 MiB less 512 that CUDA never sees, 90 % of it: 72942 MiB.
    assert found.room.usable == (81559 - 512) * 1024 * 1024 * 90 // 100
    # Context and graphs, and 1024 sequences x 248320 words x 12 bytes of logits.
    assert found.room.overhead == 2 * 429496730 + 1024 * 248320 * 12
    assert found.room.cache == found.room.usable - 55_600_000_000 - found.room.overhead
    # 64 KiB a token; blocks of 784 tokens x 64 KiB = 51,380,224 bytes, 6 of them for 3 x 2 states.
    assert (found.token_bytes, found.block) == (65536, 784)
    assert found.request_bytes == 6 * 784 * 65536
    # 16.97 GB are 330 blocks, one is kept back: 323 x 784 = 253,232 tokens; 247 x 1024 of them.
    assert found.longest == (found.room.cache // (784 * 65536) - 1 - 6) * 784
    assert found.max_model_len == found.longest // 1024 * 1024
    # A request of 32768 tokens: 42 + 6 blocks, of 8192: 11 + 6, of 4096: 6 + 6.
    blocks = found.room.cache // (784 * 65536) - 1
    loads = {load.tokens: load.requests for load in found.loads}
    assert loads == {4096: blocks // 12, 8192: blocks // 17, 32768: blocks // 48}


def test_397b_on_eight_h200_by_hand():
    found = fit(shape("Qwen3.5-397B-A17B"), gpu_memory=H200, gpus=8)
    assert (found.room.tensor_parallel, found.room.weights) == (8, 807_000_000_000 // 8)
    # Two key-value heads on eight GPUs: each has one. 2 x 256 x 2 bytes in 15 layers.
    assert found.token_bytes == 2 * 256 * 2 * 15
    assert found.max_model_len == found.limit == 262144


def test_a_model_that_fits_says_so_in_one_line():
    found = fit(shape("Qwen3.5-9B"), gpu_memory=RTX4090)
    assert found.fits
    assert found.text().startswith("weights 19.30 GB + ")
    assert "of 22.70 GB (90 % of 25.76 GB): fits, max_model_len " in found.text()
    assert "\n" not in found.text()


def test_9b_on_an_l4_needs_one_of_several_things():
    found = fit(shape("Qwen3.5-9B"), gpu_memory=L4)
    assert not found.fits
    assert found.max_model_len == 0
    assert "are missing" in found.refusal[0]
    offers = "\n".join(found.alternatives)
    assert "--language-model-only" in offers
    assert "95 % of the GPU" in offers
    assert "use 2 such GPUs" in offers
    assert "Qwen/Qwen3.5-4B (9.32 GB" in offers
    assert found.text().splitlines()[0].endswith("does not fit")
    # What is offered is true.
    assert fit(shape("Qwen3.5-9B"), gpu_memory=L4, settings=Settings(text_only=True)).fits
    assert fit(shape("Qwen3.5-9B"), gpu_memory=L4, utilization=95).fits
    assert fit(shape("Qwen3.5-4B"), gpu_memory=L4).fits


def test_27b_on_an_l40s_is_offered_in_eight_and_four_bits():
    found = fit(shape("Qwen3.5-27B"), gpu_memory=L40S)
    offers = [line for line in found.alternatives if line.startswith("choose Qwen/Qwen3.5-27B")]
    assert [line.split()[1] for line in offers] == [
        "Qwen/Qwen3.5-27B-FP8",
        "Qwen/Qwen3.5-27B-GPTQ-Int4",
    ]
    assert fit(shape("Qwen3.5-27B-FP8"), gpu_memory=L40S).fits


def test_a_length_is_asked_for():
    asked = {"gpu_memory": RTX4090, "max_model_len": 32768}
    fits = fit(shape("Qwen3.5-4B"), **asked)
    assert fits.max_model_len == 32768
    found = fit(shape("Qwen3.5-9B"), **asked)
    assert "32768 tokens need" in found.refusal[0]
    shorter = fit(shape("Qwen3.5-9B"), gpu_memory=RTX4090).max_model_len
    assert found.alternatives[0] == f"set max_model_len to {shorter}"


def test_a_length_beyond_the_model_s_own():
    found = fit(shape("Qwen3-8B"), gpu_memory=H100, max_model_len=65536)
    assert found.refusal == ("65536 tokens are asked for, and the model allows 40960",)
    assert found.alternatives[0] == "set max_model_len to 40960"


def test_a_cache_too_small_to_be_of_use():
    # One block or two are left: a number, but no server.
    found = fit(shape("Qwen3.5-9B"), gpu_memory=25_260_000_000)
    assert found.room.cache > 0
    assert found.longest < 2048
    assert "hold" in found.refusal[0]


@pytest.mark.parametrize(
    ("name", "gpus", "parts"),
    [
        ("Qwen3.5-9B", 1, 1),
        ("Qwen3.5-9B", 3, 2),  # 16 heads
        ("Qwen3.5-27B", 6, 4),  # 24 heads allow 6; 16 linear heads and 17408 do not
        ("Qwen3.5-27B", 8, 8),
        ("Qwen3.5-0.8B", 16, 8),  # 8 heads
        ("Qwen3.5-35B-A3B", 8, 8),
        ("Qwen3.5-35B-A3B-FP8", 8, 4),  # 512 / 8 = 64 of a block of 128
        ("Qwen3-14B", 8, 8),
    ],
)
def test_as_many_gpus_as_the_model_can_be_split_among(name, gpus, parts):
    assert split(shape(name), gpus) == parts
    assert fit(shape(name), gpu_memory=H100, gpus=gpus).room.tensor_parallel == parts


def test_a_split_that_can_t_be():
    found = fit(shape("Qwen3.5-27B"), gpu_memory=H100, gpus=4, tensor_parallel=3)
    assert "tensor parallel 3 is not possible: 16 linear-attention key heads" in found.refusal[0]
    found = fit(shape("Qwen3.5-27B"), gpu_memory=H100, tensor_parallel=2)
    assert found.refusal == ("tensor parallel 2 needs 2 GPUs, and there are 1",)
    (why,) = obstacles(shape("Qwen3.5-35B-A3B-FP8"), 8)
    assert why.startswith("a part of 64 of the feed-forward width 512 is no multiple of the 128")


def test_a_server_without_a_gpu_has_the_cache_that_it_is_told():
    # A GiB for 9B on a CPU: blocks of 640 tokens x 32 KiB = 20,971,520 bytes, 51 of them; one is
    # kept back and 6 hold states: 44 x 640 = 28,160 tokens.
    found = fit_cpu(shape("Qwen3.5-9B"), memory=64 * GIB, cache=GIB, beside=3 * GIB)
    assert (found.block, found.longest) == (640, 28160)
    assert found.max_model_len == 27648  # 27 x 1024
    found = fit_cpu(shape("Qwen3.5-9B"), memory=20 * GIB, cache=GIB, beside=3 * GIB)
    assert "are missing" in found.refusal[0]


def test_what_text_only_and_eager_save():
    bare = fit(shape("Qwen3.5-9B"), gpu_memory=L40S)
    text = fit(shape("Qwen3.5-9B"), gpu_memory=L40S, settings=Settings(text_only=True))
    eager = fit(shape("Qwen3.5-9B"), gpu_memory=L40S, settings=Settings(eager=True))
    assert (
        bare.room.weights - text.room.weights == 822140928
    )  # as counted for 27B: the same vision part
    assert bare.room.overhead - eager.room.overhead == tables().overhead.graphs
    assert text.room.cache > bare.room.cache


@settings(max_examples=60)
@given(
    name=st.sampled_from(PUBLISHED),
    memory=st.integers(0, 1 << 38),
    gpus=st.integers(1, 16),
    utilization=st.integers(1, 100),
    wanted=st.none() | st.integers(1, 1 << 20),
)
def test_an_answer_is_consistent_and_has_a_record(name, memory, gpus, utilization, wanted):
    found = fit(
        shape(name),
        gpu_memory=memory,
        gpus=gpus,
        utilization=utilization,
        max_model_len=wanted,
    )
    record = found.as_record()
    dumps(record)  # no floats
    assert json.loads(json.dumps(record))["fits"] == found.fits == (not found.refusal)
    assert found.text()
    assert found.max_model_len <= found.longest <= found.limit
    if found.fits:
        assert (
            found.room.weights + found.room.overhead + found.room.cache
            == found.room.usable
            <= memory
        )
        assert not found.alternatives
        assert found.max_model_len == (wanted or found.max_model_len) > 0
    # More memory never makes it fit less.
    more = fit(
        shape(name), gpu_memory=2 * memory, gpus=gpus, utilization=utilization, settings=Settings()
    )
    assert more.longest >= found.longest or memory * 2 >= tables().overhead.large_gpu > memory
