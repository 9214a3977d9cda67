"""What config.json says about memory, held against the published sizes of the checkpoints."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.tinymodel.config import ARCHITECTURES
from manifests.errors import IntegrityError
from manifests.fit import Shape, shape_of, with_cpu_states
from manifests.fit.tables import tables
from manifests.records import from_data, to_data

CONFIGS = Path(__file__).resolve().parents[1] / "data" / "configs"
PUBLISHED = sorted(path.stem for path in CONFIGS.glob("*.json"))
GIB = 1 << 30


def config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Qwen3.5-4B", 8.68 * GIB),  # vLLM's log: "Checkpoint size: 8.68 GiB"
        ("Qwen3.5-9B", 19.3e9),
        ("Qwen3.5-27B", 55_562_855_904),  # total_size of its index
        ("Qwen3.5-35B-A3B", 66.97 * GIB),  # vLLM's log
        ("Qwen3.5-122B-A10B", 250e9),  # "250 GB on disk"
        ("Qwen3-8B", 16.38e9),  # its card: 8.2 B parameters, 6.95 B without the embeddings
    ],
)
def test_the_shapes_add_up_to_the_published_checkpoints(name, size):
    assert Shape.from_config(config(name)).weights == pytest.approx(size, rel=0.003)


@pytest.mark.parametrize("checkpoint", tables().checkpoints, ids=lambda found: found.repository)
def test_the_table_of_checkpoints_fits_the_shapes(checkpoint):
    document = config(checkpoint.repository.rpartition("/")[2])
    shape = Shape.from_config(document, checkpoint.weights)
    assert (checkpoint.hidden, checkpoint.layers) == (shape.hidden, shape.all_layers)
    assert checkpoint.quantisation == shape.quantisation
    if not checkpoint.quantisation:
        counted = Shape.from_config(document).weights
        assert counted == pytest.approx(checkpoint.weights, rel=0.01)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_shape_is_known(name):
    shape = Shape.from_config(config(name), 1)
    # Of Qwen3.5's layers every fourth is one of full attention.
    assert shape.all_layers == (4 * shape.layers if shape.linear else shape.layers)
    assert shape.quantisation == ("fp8" if "FP8" in name else "gptq" if "GPTQ" in name else "")
    assert shape.block == (128 if "FP8" in name else 0)


def test_the_27b_field_by_field():
    shape = Shape.from_config(config("Qwen3.5-27B"), 55_562_855_904)
    assert (shape.layers, shape.linear.layers) == (16, 48)
    assert (shape.heads, shape.kv_heads, shape.head_width) == (24, 4, 256)
    assert (shape.linear.key_heads, shape.linear.value_heads) == (16, 48)
    assert (shape.width, shape.linear.state_bytes) == (2, 4)
    assert (shape.hidden, shape.intermediates, shape.vocabulary) == (5120, (17408,), 248320)
    assert shape.max_length == 262144
    # 27 x (4 x 1152² + 2 x 1152 x 4304) values of 2 bytes
    assert shape.vision.weights(shape.width) == 822_140_928


def test_quantised_weights_can_t_be_counted():
    assert Shape.from_config(config("Qwen3.5-27B-FP8")) is None
    assert Shape.from_config(config("Qwen3.5-27B-FP8"), 1) is not None


def test_experts_count_by_their_own_width():
    assert Shape.from_config(config("Qwen3.5-35B-A3B"), 1).intermediates == (512, 512)


def test_both_classes_of_the_tiny_model():
    for kind in ARCHITECTURES.values():
        shape = Shape.from_config(kind.files()["config.json"], 1)
        assert shape.architecture == kind.name
        assert (shape.layers, shape.linear.layers) == (1, 3)
        assert shape.linear.state_bytes == 4
        assert bool(shape.vision) == ("Conditional" in kind.name)


def test_a_type_of_states_that_is_left_open():
    document = config("Qwen3.5-9B")
    del document["text_config"]["mamba_ssm_dtype"]
    shape = Shape.from_config(document, 1)
    assert shape.linear.state_bytes == 2  # the model's own type
    # A processor with AVX512_BF16 takes float32 then, and the larger is counted.
    assert with_cpu_states(shape).linear.state_bytes == 4
    assert with_cpu_states(shape) == Shape.from_config(config("Qwen3.5-9B"), 1)


def test_the_interval_stands_for_the_list_of_layers():
    document = config("Qwen3.5-9B")
    whole = Shape.from_config(document, 1)
    del document["text_config"]["layer_types"]
    assert Shape.from_config(document, 1) == whole


def test_a_type_stated_the_old_way_and_a_type_that_is_not_served():
    document = config("Qwen3-8B")
    assert "torch_dtype" in document
    as_float32 = Shape.from_config({**document, "torch_dtype": "float32"}, 1)
    assert as_float32 == Shape.from_config(document, 1)  # served in 16 bits


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["SomethingElse"]},
        {"architectures": []},
        {"architectures": None},
        {"torch_dtype": None},
        {"torch_dtype": "int8"},
        {"num_key_value_heads": None},
        {"num_hidden_layers": "36"},
        {"num_attention_heads": 0},
        {"intermediate_size": None},
        {"max_position_embeddings": True},
        {"use_sliding_window": True},
        {"layer_types": ["sliding_attention"] * 36},
        {"layer_types": ["full_attention"]},
        {"layer_types": ["linear_attention"] * 36},
    ],
    ids=str,
)
def test_no_figure_rather_than_a_wrong_one(change):
    assert Shape.from_config({**config("Qwen3-8B"), **change}, 1) is None


@pytest.mark.parametrize("name", ["Qwen3.5-9B", "Qwen3.5-27B-FP8", "Qwen3-8B"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_configuration_never_raises(name, data):
    document = copy.deepcopy(config(name))
    table = document
    if "text_config" in document and data.draw(st.booleans()):
        table = document["text_config"]
    key = data.draw(st.sampled_from(sorted(table)))
    table[key] = data.draw(
        st.none()
        | st.integers()
        | st.text(max_size=4)
        | st.lists(st.none(), max_size=2)
        | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    )
    for weights in (0, 1):
        shape = Shape.from_config(document, weights)
        assert shape is None or shape.layers > 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shape_survives_being_written_into_a_manifest(name):
    shape = Shape.from_config(config(name), 5)
    shape.check("bundle.json")
    assert from_data(Shape, to_data(shape), exact=True) == shape


@pytest.mark.parametrize(
    "change",
    [
        {"kv_heads": 0},
        {"layers": -1},
        {"weights": 1 << 60},
        {"intermediates": ()},
        {"intermediates": (0,)},
        {"linear": {"key_heads": 0}},
        {"vision": {"merge": -2}},
    ],
    ids=str,
)
def test_measures_that_no_model_has(change):
    shape = Shape.from_config(config("Qwen3.5-9B"), 5)
    ((name, value),) = change.items()
    changed = replace(getattr(shape, name), **value) if isinstance(value, dict) else value
    with pytest.raises(IntegrityError, match="no model has a"):
        replace(shape, **{name: changed}).check("bundle.json")


def test_the_shape_of_a_folder(tmp_path):
    assert shape_of(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps(config("Qwen3.5-4B")))
    (tmp_path / "model.safetensors").write_bytes(bytes(100))
    assert shape_of(tmp_path) == Shape.from_config(config("Qwen3.5-4B"), 100)
    for text in ("[]", "{", '{"architectures": ["Other"]}', "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        assert shape_of(tmp_path) is None
