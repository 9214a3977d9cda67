"""LoRA adapters in PEFT's form: what is served, and what is refused with which words."""

import json

import pytest

from bundler.tinymodel import safetensors
from manifests import adapter
from manifests.errors import BundleError, IntegrityError, UsageError
from manifests.modelfolder import files_of
from tests.support import lora


@pytest.fixture
def folder(tmp_path):
    return lora.make(tmp_path / "style", rank=4)


def inspect(folder, left_out=()):
    return adapter.inspect(files_of(folder), "style", left_out)


def change(folder, **changes):
    path = folder / adapter.CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_adapter_says_what_it_is(folder):
    found = inspect(folder)
    assert found == adapter.LoraConfig("tiny-qwen3.5", 4, tuple(sorted(lora.TARGETS)))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3'"),
        ({"r": 0}, "the rank r is 0"),
        ({"r": True}, "the rank r is True"),
        ({"r": 513}, "the rank r is 513"),
        ({"r": "8"}, "the rank r is '8'"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"target_modules": []}, "target_modules"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias 'all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"layer_replication": [[0, 1]]}, "replicated layers"),
    ],
)
def test_what_vllm_does_not_serve(folder, changes, why):
    change(folder, **changes)
    with pytest.raises(UsageError) as caught:
        inspect(folder)
    assert any(why in finding for finding in caught.value.findings)


def test_a_rank_that_is_not_that_of_the_weights(folder):
    change(folder, r=8)
    with pytest.raises(IntegrityError, match="can't be served") as caught:
        inspect(folder)
    assert "says rank 8" in caught.value.findings[0]


@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt"])
def test_pickles_are_refused(folder, name):
    (folder / adapter.WEIGHTS).rename(folder / name)
    with pytest.raises(UsageError) as caught:
        inspect(folder)
    assert f"{name}: a pickle" in caught.value.findings[0]
    assert "safetensors" in caught.value.mend


def test_a_pickle_that_is_left_out_beside_safetensors_does_no_harm(folder):
    assert inspect(folder, left_out=["adapter_model.bin"]).rank == 4


def test_a_pickle_that_is_the_only_form_is_named(folder):
    (folder / adapter.WEIGHTS).unlink()
    with pytest.raises(UsageError) as caught:
        inspect(folder, left_out=["adapter_model.bin"])
    assert "adapter_model.bin: a pickle" in caught.value.findings[0]


@pytest.mark.parametrize("name", [adapter.CONFIG, adapter.WEIGHTS])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(UsageError) as caught:
        inspect(folder)
    assert caught.value.findings[0].startswith(f"{name}: missing")


def test_a_file_cut_short_is_damage(folder):
    path = folder / adapter.WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IntegrityError) as caught:
        inspect(folder)
    assert "truncated-data" in caught.value.findings[0]


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ({}, "holds no LoRA"),
        ({"x.lora_A.weight": ((4, 2), bytes(16))}, "one half of a LoRA"),
        (
            {
                "x.lora_A.weight": ((4, 2), bytes(16)),
                "x.lora_B.weight": ((2, 4), bytes(16)),
                "lm_head.weight": ((1,), bytes(2)),
            },
            "lm_head.weight is no part of a LoRA",
        ),
    ],
)
def test_weights_that_are_no_lora(folder, tensors, why):
    (folder / adapter.WEIGHTS).write_bytes(safetensors(tensors))
    with pytest.raises(BundleError) as caught:
        inspect(folder)
    assert any(why in finding for finding in caught.value.findings)


@pytest.mark.parametrize(
    "data", [b"", b"<!doctype html>", b"[1]", b"{", b"[" * 100_000, b'{"r": 1e999}']
)
def test_a_configuration_that_is_none(folder, data):
    (folder / adapter.CONFIG).write_bytes(data)
    with pytest.raises(BundleError):
        inspect(folder)


@pytest.mark.parametrize(
    ("ranks", "most"), [((1,), 1), ((2,), 8), ((8,), 8), ((9, 4), 16), ((257,), 320), ((512,), 512)]
)
def test_the_servers_rank_is_one_that_it_takes(ranks, most):
    assert adapter.max_rank(ranks) == most
