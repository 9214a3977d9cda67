import pytest

from manifests.fit import Settings, Shape, fit, flags_of, settings_of, unjudged
from tests.unit.test_manifests_fit_shape import config


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((), Settings()),
        (("--enforce-eager",), Settings(eager=True)),
        (("--language-model-only", "--enforce_eager"), Settings(text_only=True, eager=True)),
        (("--no-enable-prefix-caching",), Settings(prefix_caching=False)),
        (("--max-num-seqs", "64"), Settings(sequences=64)),
        (("--max_num_seqs=64", "--seed", "0"), Settings(sequences=64)),
        (("--max-num-batched-tokens=8192",), Settings(batch_tokens=8192)),
        (("--max-num-seqs",), Settings()),
        (("--max-num-seqs", "--enforce-eager"), Settings(eager=True)),
        (("--max-num-seqs", "²"), Settings()),
    ],
    ids=str,
)
def test_what_arguments_mean_for_memory(arguments, settings):
    assert settings_of(arguments) == settings


def test_the_block_of_the_cache_is_passed_on():
    assert settings_of((), block=128) == Settings(block=128)


def test_the_answer_as_arguments():
    shape = Shape.from_config(config("Qwen3.5-27B"), 55_562_855_904)
    found = fit(shape, gpu_memory=46068 << 20, gpus=2, max_model_len=32768)
    assert flags_of(found) == (
        *("--tensor-parallel-size", "2"),
        *("--gpu-memory-utilization", "0.90"),
        *("--max-model-len", "32768"),
    )
    assert flags_of(fit(shape, gpu_memory=46068 << 20)) == ()


def test_fewer_requests_at_a_time_than_vllm_s_default():
    # 330 blocks on an H100 (test_27b_on_an_h100_by_hand), 90 % of them; vLLM's default is 1024.
    shape = Shape.from_config(config("Qwen3.5-27B"), 55_562_855_904)
    assert flags_of(fit(shape, gpu_memory=81559 << 20))[-2:] == ("--max-num-seqs", "297")
    for settings in (Settings(eager=True), Settings(sequences=64)):
        assert fit(shape, gpu_memory=81559 << 20, settings=settings).sequences == 0
    # Enough blocks, or no state to keep one for.
    assert fit(shape, gpu_memory=143771 << 20, gpus=2).sequences == 0
    plain = Shape.from_config(config("Qwen3-14B"), 29_500_000_000)
    assert fit(plain, gpu_memory=40000 << 20).sequences == 0


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (("--seed", "0", "--enforce-eager"), ()),
        (("--cpu-offload-gb=8",), ("--cpu-offload-gb",)),
        (("--kv_cache_dtype", "fp8", "-tp", "2"), ("--kv-cache-dtype", "-tp")),
    ],
)
def test_arguments_about_which_nothing_is_known(arguments, others):
    assert unjudged(arguments) == others
