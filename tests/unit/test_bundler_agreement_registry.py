"""What a vLLM wheel says of itself, read without running it."""

import zipfile

import pytest

from bundler.agreement import registry

REGISTRY = """
import torch.nn as nn  # never imported
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "Qwen3_5ForConditionalGeneration": ("qwen3_5", "Qwen3_5ForConditionalGeneration"),
}
_TRANSFORMERS_BACKEND_MODELS = {"TransformersForCausalLM": ("transformers", "T")}
_ODD = {key: 1 for key in ()}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_TRANSFORMERS_BACKEND_MODELS, **unknown(), 1: 2}
_PREVIOUSLY_SUPPORTED_MODELS = {"MotifForCausalLM": "0.10.2", "Other": None}
raise RuntimeError("this module was run")
"""
CONFIGS = """
_CONFIG_REGISTRY: dict[str, type] = LazyConfigDict(
    qwen3_5="Qwen3_5Config", kimi_k2="DeepseekV3Config", **more
)
"""


def wheel(path, models=REGISTRY, configs=CONFIGS):
    with zipfile.ZipFile(path, "w") as archive:
        if models is not None:
            archive.writestr("vllm/model_executor/models/registry.py", models)
        if configs is not None:
            archive.writestr("vllm/transformers_utils/config.py", configs)
    return path


def test_a_registry_is_read_and_not_run(tmp_path):
    found = registry.read(wheel(tmp_path / "vllm.whl"))
    assert found == registry.Registry(
        frozenset(
            {"LlamaForCausalLM", "Qwen3_5ForConditionalGeneration", "TransformersForCausalLM"}
        ),
        frozenset({"qwen3_5", "kimi_k2"}),
        {"MotifForCausalLM": "0.10.2"},
    )


@pytest.mark.parametrize(
    ("models", "configs"),
    [
        (None, CONFIGS),
        (REGISTRY, None),
        ("def broken(:", CONFIGS),
        ("_VLLM_MODELS = build()", CONFIGS),
        ("_VLLM_MODELS = {}", CONFIGS),
        ("x = " + "(" * 500 + ")" * 500, CONFIGS),
        ("\0", CONFIGS),
    ],
)
def test_another_layout_is_not_guessed_at(tmp_path, models, configs):
    assert registry.read(wheel(tmp_path / "vllm.whl", models, configs)) is None


def test_what_is_no_wheel(tmp_path):
    (tmp_path / "vllm.whl").write_bytes(b"PK\3\4 and then nothing")
    assert registry.read(tmp_path / "vllm.whl") is None
    with pytest.raises(OSError, match="No such file"):
        registry.read(tmp_path / "none.whl")
