import pytest

from manifests.fit import Settings, Shape, fit, flags_of, settings_of
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
