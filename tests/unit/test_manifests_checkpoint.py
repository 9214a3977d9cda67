"""Checkpoints that are whole, and every way in which one that was carried around is not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler import tinymodel
from manifests.checkpoint import Rules, inspect, preview
from manifests.errors import BundleError, IntegrityError, UsageError
from manifests.modelfolder import files_of
from manifests.safetensors import read_header

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    tinymodel.make(root / "one")
    tinymodel.make(root / "two", shards=2)
    tinymodel.make(root / "vision", architecture="conditional")
    return {name: root / name for name in ("one", "two", "vision")}


@pytest.fixture
def model(made: dict[str, Path], tmp_path: Path) -> Path:
    """A whole model in two shards."""
    return Path(shutil.copytree(made["two"], tmp_path / "model"))


def edit(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def findings(model: Path, rules: Rules | None = None) -> list[str]:
    with pytest.raises(BundleError) as caught:
        inspect(model, rules)
    assert "Traceback" not in caught.value.render()
    assert caught.value.mend
    return list(caught.value.findings)


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("truncated-data", lambda data: data[:-4]),
        ("truncated-header", lambda data: data[:100]),
        ("truncated-header", lambda data: data[:8]),
        ("truncated-header", lambda data: data[:7]),
        ("empty", lambda data: b""),
        ("lfs-pointer", lambda data: LFS_POINTER),
        ("html-instead", lambda data: b"\n<!DOCTYPE html><html></html>"),
        ("json-error", lambda data: b'{"error": "Repository not found"}'),
        ("trailing-bytes", lambda data: data + b"12345678"),
        ("link-as-text", lambda data: b"../../blobs/0123abcd"),
        ("gzip", lambda data: b"\x1f\x8b\x08" + data),
        ("zeros", lambda data: bytes(len(data))),
        ("bad-header", lambda data: b"PK\x03\x04" + data),
        ("bad-header", lambda data: data[:8] + b"[" + data[9:]),
    ],
)
def test_a_shard_that_is_something_else(
    model: Path, kind: str, change: Callable[[bytes], bytes]
) -> None:
    shard = model / SECOND
    shard.write_bytes(change(shard.read_bytes()))
    with pytest.raises(IntegrityError) as caught:
        inspect(model)
    (finding,) = caught.value.findings
    assert finding.startswith(SECOND)
    assert finding.endswith(f"({kind})")


def test_the_smallest_valid_file_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(tinymodel.safetensors({"a": ((1,), b"\0\0")}))
    with path.open("rb") as handle:
        (tensor,) = read_header(handle, path.stat().st_size, path.name)
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.begin, tensor.end) == (
        "a",
        "BF16",
        (1,),
        0,
        2,
    )


def header(text: str, data: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "little") + text.encode() + data


def entry(begin: Any, end: Any, shape: Any = (2,), dtype: Any = "BF16") -> str:
    return json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{{"a": {entry(0, 4)}, "a": {entry(4, 8)}}}', "'a' is listed twice"),
        (f'{{"a": {entry(0, 4)}, "b": {entry(2, 6)}}}', "'b' that overlaps"),
        (f'{{"a": {entry(0, 4)}, "b": {entry(6, 10)}}}', "'b' that leaves a gap"),
        (f'{{"a": {entry(2, 6)}}}', "'a' that leaves a gap"),
        (f'{{"a": {entry(0, 4, [3])}}}', "does not fill its 4 bytes"),
        (f'{{"a": {entry(4, 0)}}}', "does not fill"),
        (f'{{"a": {entry(-4, 0)}}}', "offsets"),
        (f'{{"a": {entry(0, 4, [True, 2])}}}', "shape"),
        (f'{{"a": {entry(0, 4, dtype="BF17")}}}', "unknown type 'BF17'"),
        (f'{{"a": {entry(0, 4, dtype=[1])}}}', "unknown type"),
        ('{"a": {"dtype": "BF16", "shape": [2]}}', "needs dtype, shape and data_offsets"),
        ('{"a": 1}', "needs dtype"),
        ("{" * 5000, "can't be"),
        ('{"a": }', "can't be"),
    ],
)
def test_headers_that_no_writer_writes(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(header(text, bytes(10)))
    with path.open("rb") as handle, pytest.raises(IntegrityError, match=why) as caught:
        read_header(handle, path.stat().st_size, path.name)
    assert "(bad-header)" in caught.value.what


@settings(max_examples=200)
@given(st.binary(max_size=80), st.integers(0, 300), st.integers(1, 8))
def test_damage_to_a_header_is_told_and_never_a_defect_of_ours(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int, length: int
) -> None:
    whole = tinymodel.safetensors({"a": ((2, 2), bytes(8)), "b": ((1,), b"\0\0")})
    damaged = whole[: at % len(whole)] + junk[:length] + whole[at % len(whole) + length :]
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(damaged)
    with path.open("rb") as handle:
        try:
            tensors = read_header(handle, len(damaged), "x")
        except IntegrityError:
            return
    assert sum(tensor.end - tensor.begin for tensor in tensors) == 10


def test_a_missing_shard_is_named(model: Path) -> None:
    (model / SECOND).unlink()
    assert findings(model) == [f"{SECOND}: missing, {INDEX} names it (missing-shard)"]


def test_a_missing_shard_is_named_without_an_index_too(model: Path) -> None:
    (model / SECOND).unlink()
    (model / INDEX).unlink()
    assert findings(model) == [f"{SECOND}: missing, {FIRST} counts it (missing-shard)"]


def test_several_shards_need_their_index(model: Path) -> None:
    (model / INDEX).unlink()
    assert findings(model) == [f"{INDEX}: missing, and there are 2 weight files (missing-index)"]


def test_a_shard_too_many(model: Path) -> None:
    (model / "old.safetensors").write_bytes(tinymodel.safetensors({"z": ((1,), b"\0\0")}))
    assert findings(model) == [f"old.safetensors: not named by {INDEX} (extra-shard)"]


def test_a_tensor_that_is_not_in_its_shard(model: Path) -> None:
    edit(model / INDEX, lambda index: index["weight_map"].update({"t2": SECOND}))
    (finding,) = findings(model)
    assert finding.startswith(f"{SECOND} does not contain t2")


def test_a_tensor_in_two_shards(model: Path) -> None:
    data = tinymodel.safetensors({"twin": ((1,), b"\0\0")})
    for shard in (FIRST, SECOND):
        (model / shard).write_bytes(data)
    edit(model / INDEX, lambda i: i.update(weight_map={"twin": FIRST, "lone": SECOND}))
    assert findings(model) == [
        f"the tensor twin is in {FIRST} and in {SECOND} (duplicate-tensor)",
        f"{SECOND} does not contain lone, which {INDEX} places there (missing-tensor)",
    ]


def test_an_index_that_is_older_than_the_weights(model: Path) -> None:
    edit(model / INDEX, lambda index: index["weight_map"].pop("model.norm.weight"))
    (finding,) = findings(model)
    assert "contains model.norm.weight" in finding
    assert finding.endswith("(stale-index)")


@pytest.mark.parametrize("index", ["[]", '{"weight_map": {"a": 1}}', "{}"])
def test_an_index_that_is_none(model: Path, index: str) -> None:
    (model / INDEX).write_text(index)
    assert findings(model) == [f"{INDEX}: no `weight_map`"]


def test_every_problem_is_told_at_once(model: Path) -> None:
    (model / FIRST).write_bytes(b"")
    (model / SECOND).unlink()
    (model / "tokenizer.json").unlink()
    (model / "generation_config.json").write_bytes(LFS_POINTER)
    (model / "modeling.py").write_text("")
    (model / "x.pt").write_text("")
    text = "\n".join(findings(model))
    for part in ("(empty)", "(missing-shard)", "no tokenizer", "(lfs-pointer)", "(pickle)"):
        assert part in text
    assert "modeling.py: code that comes with the model (remote-code)" in text


def test_no_config_is_a_usage_error(model: Path) -> None:
    (model / "config.json").unlink()
    with pytest.raises(UsageError) as caught:
        inspect(model)
    assert caught.value.findings == ("config.json: missing",)
    assert str(model) in caught.value.what


@pytest.mark.parametrize(
    ("config", "finding"),
    [
        ("{", "config.json: not JSON"),
        ("\ufeff{}", "config.json: "),
        ("[]", "config.json: no `architectures`"),
        ('{"architectures": "x"}', "config.json: no `architectures`"),
        ('{"peft_type": "LORA"}', "config.json: no `architectures`"),
        ("<html>", "config.json: is a web page"),
        ("../../blobs/aa", "config.json: is the text of a link"),
    ],
)
def test_a_config_that_is_none(model: Path, config: str, finding: str) -> None:
    (model / "config.json").write_text(config)
    assert any(found.startswith(finding) for found in findings(model))


def test_an_architecture_that_the_stack_does_not_know(model: Path) -> None:
    inspect(model, Rules(architectures=("Qwen3_5ForCausalLM",)))
    with pytest.raises(UsageError, match="can't be served") as caught:
        inspect(model, Rules(architectures=("LlamaForCausalLM",)))
    (finding,) = caught.value.findings
    assert "Qwen3_5ForCausalLM" in finding
    assert "'qwen3_5_text'" in finding
    assert "LlamaForCausalLM" in caught.value.mend


def test_a_class_with_a_vision_part_needs_its_processor(
    made: dict[str, Path], tmp_path: Path
) -> None:
    model = Path(shutil.copytree(made["vision"], tmp_path / "m"))
    inspect(model)
    (model / "preprocessor_config.json").unlink()
    (finding,) = findings(model)
    assert finding.startswith("preprocessor_config.json: missing")
    inspect(model, Rules(text_only=True))


def test_pickle_and_code_only_where_allowed(model: Path) -> None:
    (model / "extra.bin").write_bytes(b"x")
    (model / "modeling_x.py").write_text("")
    edit(
        model / "config.json", lambda config: config.update(auto_map={"AutoModel": "modeling_x.Y"})
    )
    text = "\n".join(findings(model))
    assert "extra.bin" in text
    assert "modeling_x.py" in text
    assert "config.json: `auto_map`" in text
    inspect(model, Rules(pickle=True, remote_code=True))


def test_weights_only_as_pickle(model: Path) -> None:
    for name in (FIRST, SECOND, INDEX):
        (model / name).unlink()
    assert findings(model) == ["no weights (*.safetensors)"]
    with pytest.raises(UsageError) as caught:
        inspect(files_of(model), left_out=["pytorch_model.bin"])
    assert "only pickles" in caught.value.findings[0]
    assert "--allow-pickle" in caught.value.mend
    (model / "pytorch_model.bin").write_bytes(bytes(1000))
    found = inspect(model, Rules(pickle=True))
    assert (found.weight_bytes, found.parameters) == (1000, 0)
    assert [risk.path for risk in found.risks] == ["pytorch_model.bin"]
    index = {"weight_map": {"a": "pytorch_model.bin", "b": "gone.bin"}}
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (finding,) = findings(model, Rules(pickle=True))
    assert finding.startswith("gone.bin: missing, pytorch_model.bin.index.json names it")


@pytest.mark.parametrize(
    ("names", "good"),
    [
        (["vocab.json", "merges.txt"], True),
        (["vocab.json"], False),
        (["tokenizer.model"], True),
        ([], False),
    ],
)
def test_what_makes_a_tokenizer(model: Path, names: list[str], good: bool) -> None:
    (model / "tokenizer.json").unlink()
    for name in names:
        (model / name).write_text("{}")
    if good:
        inspect(model)
    else:
        assert any(finding.startswith("no tokenizer") for finding in findings(model))


def test_thinking_is_read_from_wherever_the_template_is(model: Path) -> None:
    assert inspect(model).thinking
    edit(model / "tokenizer_config.json", lambda config: config.pop("chat_template"))
    assert not inspect(model).thinking
    (model / "chat_template.jinja").write_text("{% if enable_thinking %}…{% endif %}", "utf-8")
    assert inspect(model).thinking


def test_dtype_is_measured_where_the_config_does_not_state_it(model: Path) -> None:
    edit(model / "config.json", lambda config: config.pop("dtype"))
    assert inspect(model).dtype == "bfloat16"
    edit(model / "config.json", lambda config: config.update(torch_dtype="float16"))
    assert inspect(model).dtype == "float16"


def test_quantisation_is_told(model: Path) -> None:
    edit(model / "config.json", lambda c: c.update(quantization_config={"quant_method": "fp8"}))
    assert inspect(model).quantisation == "fp8"


def test_before_the_weights_are_here(model: Path) -> None:
    files = files_of(model)
    small = {name: path for name, path in files.items() if name.endswith(".json")}
    preview(small, files, where="m")
    with pytest.raises(IntegrityError) as caught:
        preview(small, [name for name in files if name != SECOND], where="m")
    assert SECOND in caught.value.findings[0]
    with pytest.raises(UsageError, match=r"^m: "):
        preview(small, files, Rules(architectures=("X",)), where="m")


# The files of a folder


def test_links_are_followed_and_hidden_files_left(model: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (model / FIRST).rename(blobs / "b")
    (model / FIRST).symlink_to("../blobs/b")
    (model / ".git").mkdir()
    (model / ".git/config").write_text("")
    (model / ".gitattributes").write_text("")
    found = files_of(model)
    assert FIRST in found
    assert not any(name.startswith(".") for name in found)
    inspect(model)


def test_links_without_what_they_point_to(model: Path) -> None:
    (model / FIRST).unlink()
    (model / FIRST).symlink_to("../../blobs/gone")
    (model / "loop").symlink_to("loop")
    (model / "folder").symlink_to(".")
    with pytest.raises(IntegrityError) as caught:
        inspect(model)
    assert caught.value.findings == (
        "folder: a link to a folder",
        "loop: a link to loop, which is not there (dangling-link)",
        f"{FIRST}: a link to ../../blobs/gone, which is not there (dangling-link)",
    )
    assert "cp -rL" in caught.value.mend


def test_an_unfinished_download(model: Path) -> None:
    (model / "x.safetensors.incomplete").write_text("")
    (finding,) = findings(model)
    assert finding.startswith("x.safetensors.incomplete")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        inspect(tmp_path / "none")
