"""Weights and a config.json that do not belong together are told before a server tries."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler import tinymodel
from manifests import configured, extras
from manifests.checkpoint import inspect
from manifests.errors import BundleError
from manifests.risks import references
from manifests.safetensors import Tensor, read_header

EMBEDDING = "model.embed_tokens.weight"
#: What is read of a configuration, and a stranger.
KEYS = st.sampled_from(
    [
        *("architectures", "auto_map", "dtype", "head_dim", "hidden_size", "intermediate_size"),
        *("layer_types", "max_position_embeddings", "model_type", "num_attention_heads"),
        *("num_hidden_layers", "num_key_value_heads", "num_nextn_predict_layers", "other"),
        *("quantization_config", "text_config", "tie_word_embeddings", "vision_config"),
        *("vocab_size", "weight_block_size"),
    ]
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Configuration and tensors of both tiny classes."""
    found = {}
    for kind in ("causal", "conditional"):
        folder = tmp_path_factory.mktemp("configured") / kind
        tinymodel.make(folder, architecture=kind)
        weights = folder / "model.safetensors"
        with weights.open("rb") as handle:
            tensors = read_header(handle, weights.stat().st_size, weights.name)
        found[kind] = (json.loads((folder / "config.json").read_text()), tensors)
    return found


def texts(config, tensors):
    return [finding.text for finding in configured.check(config, tensors)]


@pytest.mark.parametrize("kind", ["causal", "conditional"])
def test_a_pair_that_belongs_together(parts, kind):
    assert texts(*parts[kind]) == []


@pytest.mark.parametrize("kind", ["causal", "conditional"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocab_size": 321}, "vocab_size is 321, "),
        ({"hidden_size": 32}, "hidden_size is 32, "),
        ({"num_hidden_layers": 3, "layer_types": None}, "num_hidden_layers is 3, "),
        ({"num_hidden_layers": 8, "layer_types": None}, "num_hidden_layers is 8, "),
        ({"intermediate_size": 1024}, "parameters of language"),
        ({"intermediate_size": 16}, "parameters of language"),
    ],
)
def test_a_config_of_another_model(parts, kind, change, words):
    config, tensors = parts[kind]
    inner = config.get("text_config", config)
    config = {**config, "text_config": inner | change} if inner is not config else config | change
    found = texts(config, tensors)
    assert any(words in text for text in found), found
    assert all("(other-model)" in text for text in found)


def test_quantised_weights_without_a_word_about_them(parts):
    config, _ = parts["causal"]
    tensors = [Tensor("a.weight", "F8_E4M3", (8, 8), 0, 64), Tensor("b", "BF16", (4,), 64, 72)]
    (text,) = texts(config, tensors)
    assert "most of the weights are F8_E4M3" in text
    assert texts(config | {"quantization_config": {"quant_method": "fp8"}}, tensors) == []


def test_packed_embeddings_and_unknown_classes_are_left_alone():
    packed = Tensor(EMBEDDING, "I32", (8, 2), 0, 64)
    config = {"vocab_size": 9, "hidden_size": 9, "quantization_config": {"quant_method": "gptq"}}
    assert texts(config, [packed]) == []
    assert texts({"architectures": ["Other"]}, [Tensor("x", "F32", (2,), 0, 8)]) == []
    assert texts([], [packed]) == []
    assert texts({}, []) == []


def test_a_layer_in_the_middle_is_missing(parts):
    config, tensors = parts["causal"]
    rest = [tensor for tensor in tensors if ".layers.1." not in tensor.name]
    assert "the weights lack layer 1 of 4 (missing-layer)" in texts(config, rest)


def test_layers_for_several_tokens_count_on():
    names = [EMBEDDING, *(f"model.layers.{number}.x" for number in range(4))]
    tensors = [Tensor(name, "BF16", (2, 2), 0, 8) for name in names]
    config = {"vocab_size": 2, "hidden_size": 2, "num_hidden_layers": 3}
    assert len(texts(config, tensors)) == 1
    assert texts(config | {"num_nextn_predict_layers": 1}, tensors) == []


def test_it_is_part_of_every_inspection(tmp_path: Path):
    tinymodel.make(tmp_path / "model")
    path = tmp_path / "model/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 7}))
    with pytest.raises(BundleError) as caught:
        inspect(tmp_path / "model")
    assert caught.value.findings[0].startswith("config.json: vocab_size is 7")
    assert "same revision" in caught.value.mend


def test_a_file_of_its_own_may_state_the_quantisation(parts, tmp_path: Path):
    """NVIDIA ModelOpt's checkpoints have no `quantization_config` in config.json."""
    folder = tmp_path / "model"
    tinymodel.make(folder)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    largest = max(
        (name for name in header if name != "__metadata__" and "embed" not in name),
        key=lambda name: header[name]["data_offsets"][1] - header[name]["data_offsets"][0],
    )
    for name, tensor in header.items():
        if name == largest or "layers" in name:
            tensor |= {"dtype": "I8", "shape": [2 * tensor["shape"][0], *tensor["shape"][1:]]}
    text = json.dumps(header).encode()
    weights.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    with pytest.raises(BundleError) as caught:
        inspect(folder)
    assert any("no `quantization_config`" in line for line in caught.value.findings)
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}})
    )
    assert inspect(folder).architectures
    # Everything else is compared as ever.
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 7}))
    with pytest.raises(BundleError, match="can't be served"):
        inspect(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_no_config_at_all_causes_another_error(config):
    name = "model.layers.0.x"
    tensors = [Tensor(EMBEDDING, "BF16", (2, 2), 0, 8), Tensor(name, "BF16", (2,), 8, 12)]
    for finding in configured.check(config, tensors):
        assert finding.text
    configured.vocabulary_of(config)
    documents = {"config.json": config}
    assert all(len(one) == 3 for one in references(documents))
    list(extras.check_code((), documents))
    list(extras.check_vocabularies((), config, {}))
