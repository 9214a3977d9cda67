"""What a vLLM wheel says of itself, read without running it."""

import io
import zipfile

import pytest

from bundler.agreement import gate, probe, registry
from bundler.workshop import Workshop
from tests.support import index
from tests.support.locked import wheel as locked_wheel

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


def flipped(tmp_path, name, data):
    """A cache in which a wheel's bytes went bad, and what the lock and the person know of it."""
    heard = []

    def fetch_again(sha256):
        heard.append("fetched")
        return workshop.store.adopt(io.BytesIO(data)) == sha256

    workshop = Workshop(tmp_path / "cache", heard.append, fetch_again)
    sha256 = workshop.store.adopt(io.BytesIO(data))
    path = workshop.store.path(sha256)
    path.chmod(0o644)
    path.write_bytes(data[:-30] + bytes(byte ^ 1 for byte in data[-30:]))
    return workshop, locked_wheel(name, sha256=sha256), heard


def test_a_server_s_wheel_that_went_bad_heals_before_it_is_read(tmp_path):
    data = wheel(tmp_path / "vllm.whl").read_bytes()
    workshop, locked, heard = flipped(tmp_path, "vllm", data)
    assert "LlamaForCausalLM" in gate._server([locked], workshop).registry.architectures
    assert "vllm-1-py3-none-any.whl went bad" in heard[0]
    assert heard[1:] == ["fetched"]


def test_a_wheel_of_transformers_that_went_bad_heals_before_it_is_read(tmp_path):
    _, data = index.wheel("transformers", "1", requires=["packaging"])
    workshop, locked, heard = flipped(tmp_path, "transformers", data)
    assert probe.wheels_for([locked], workshop) == (locked,)
    assert heard[1:] == ["fetched"]


def test_a_python_for_another_machine_is_no_answer(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_bytes(b"\x7fELF of another machine")
    python.chmod(0o755)
    monkeypatch.setattr(probe, "isolated", lambda: ())
    answer = probe._run(python, tmp_path, tmp_path)
    assert "Exec format error" in answer.error
    assert not answer.version
