"""Folders and caches as sources, what is taken from them, and how a name becomes a source."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bundler import tinymodel
from bundler.models import resolve, stream
from bundler.models.card import licence_of
from bundler.models.folder import FolderSource
from bundler.models.hub import HubSource
from bundler.models.selection import differs, select
from manifests.checkpoint import Rules
from manifests.errors import BundleError, IntegrityError, UsageError
from manifests.lock import COMPUTED, ModelFile
from manifests.risks import PICKLE, Risk
from tests.support.hub import git_blob
from wheelhouse.store import Store

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "model"
    tinymodel.make(folder, shards=2)
    return folder


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "my model"))


@pytest.fixture
def cache(made: Path, tmp_path: Path) -> Path:
    """The model as huggingface_hub keeps it."""
    cache = tmp_path / "models--Qwen--Qwen3.5-0.1B"
    snapshot, blobs = cache / "snapshots" / ("c" * 40), cache / "blobs"
    for folder in (snapshot, blobs, cache / "refs"):
        folder.mkdir(parents=True)
    for path in made.iterdir():
        data = path.read_bytes()
        lfs = path.suffix == ".safetensors"
        name = hashlib.sha256(data).hexdigest() if lfs else git_blob(data)
        (blobs / name).write_bytes(data)
        (snapshot / path.name).symlink_to(f"../../blobs/{name}")
    (cache / "refs/main").write_text("c" * 40 + "\n")
    return cache


def source(path: Path, rules: Rules | None = None) -> FolderSource:
    found = resolve(str(path), Store(path.parent / "store"), rules)
    assert isinstance(found, FolderSource)
    return found


def test_a_folder_is_locked_and_read_in_place(model: Path) -> None:
    found = source(model)
    counted: list[int] = []
    locked = found.lock(counted.append)
    assert sum(counted) == found.reads() == sum(file.size for file in locked.files)
    assert (locked.name, locked.source) == ("my-model", "folder:my-model")
    assert locked.licence == "apache-2.0"
    for file in locked.files:
        data = (model / file.path).read_bytes()
        assert file.sha256 == hashlib.sha256(data).hexdigest()
        assert (file.size, file.digest_from) == (len(data), COMPUTED)
    snapshot = found.fetch(locked, counted.append)
    assert snapshot.files[FIRST] == model / FIRST
    assert snapshot.checkpoint.shards == (FIRST, SECOND)
    assert not (model.parent / "store").exists()


def test_the_revision_is_that_of_the_content(model: Path, made: Path) -> None:
    first = source(model).lock()
    assert source(made).lock().revision == first.revision
    (model / "README.md").write_text("other")
    assert source(model).lock().revision != first.revision


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"), "sha256"),
        (lambda path: path.write_bytes(path.read_bytes() + b"!"), "bytes"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes"),
        (lambda path: path.unlink(), "no such file"),
    ],
)
def test_a_file_that_changed_after_the_lock(model: Path, change: object, words: str) -> None:
    assert callable(change)
    locked = source(model).lock()
    (file,) = (file for file in locked.files if file.path == "README.md")
    change(model / file.path)
    with pytest.raises(IntegrityError, match=words) as caught:
        snapshot = source(model).fetch(locked)
        for _ in stream(snapshot.files[file.path], file):
            pass
    assert "README.md: locked with" in caught.value.what


def test_a_stream_hands_out_the_bytes(model: Path) -> None:
    data = (model / FIRST).read_bytes()
    file = ModelFile(FIRST, len(data), hashlib.sha256(data).hexdigest())
    assert b"".join(bytes(view) for view in stream(model / FIRST, file)) == data
    for wrong in (replace(file, size=1), replace(file, size=len(data) + 1)):
        with pytest.raises(IntegrityError):
            list(stream(model / FIRST, wrong))
    with pytest.raises(BundleError, match="No such file"):
        list(stream(model / "none", file))


@pytest.mark.parametrize("part", [".", "snapshots/" + "c" * 40])
def test_a_cache_is_a_folder_too(cache: Path, part: str) -> None:
    found = source(cache / part)
    locked = found.lock()
    assert locked.name == "Qwen3.5-0.1B"
    assert found.fetch(locked).checkpoint.thinking


def test_of_several_snapshots_the_current_one_is_taken(cache: Path) -> None:
    (cache / "snapshots" / ("d" * 40)).mkdir()
    assert source(cache).folder.name == "c" * 40
    (cache / "refs/main").unlink()
    with pytest.raises(UsageError, match="2 snapshots") as caught:
        source(cache)
    assert len(caught.value.findings) == 2


@pytest.mark.parametrize("name", [FIRST, "config.json"])
def test_a_cache_whose_blob_is_not_what_its_name_says(cache: Path, name: str) -> None:
    blob = (cache / "snapshots" / ("c" * 40) / name).resolve()
    data = blob.read_bytes()
    blob.write_bytes(
        data[:-3] + bytes([data[-3] ^ 1]) + data[-2:] if name == FIRST else data + b" "
    )
    with pytest.raises(IntegrityError) as caught:
        source(cache).lock()
    assert caught.value.what.startswith(f"{name}: the cache keeps it as {blob.name}")


def test_an_interrupted_download_into_a_cache(cache: Path) -> None:
    shard = cache / "snapshots" / ("c" * 40) / SECOND
    blob = shard.resolve()
    shard.unlink()
    blob.rename(blob.with_name(f"{blob.name}.1a2b.incomplete"))
    with pytest.raises(IntegrityError) as caught:
        source(cache).lock()
    assert SECOND in caught.value.findings[0]
    assert caught.value.findings[1].startswith(f"blobs/{blob.name}")


def test_a_snapshot_that_was_copied_without_its_blobs(cache: Path) -> None:
    shutil.rmtree(cache / "blobs")
    with pytest.raises(IntegrityError) as caught:
        source(cache).lock()
    assert len(caught.value.findings) == 8
    assert "cp -rL" in caught.value.mend


@pytest.mark.parametrize("name", ["config.json", SECOND])
def test_a_folder_with_a_hole_is_told_before_anything_is_hashed(model: Path, name: str) -> None:
    (model / name).unlink()
    counted: list[int] = []
    with pytest.raises(BundleError) as caught:
        source(model).lock(counted.append)
    assert any(name in finding for finding in caught.value.findings)
    assert not counted


@pytest.mark.parametrize(
    ("typed", "repository", "revision"),
    [
        ("Qwen3.5-14B", "Qwen/Qwen3.5-14B", "main"),
        ("qwen3.5-9b", "Qwen/qwen3.5-9b", "main"),
        ("gpt2", "gpt2", "main"),
        ("org/name", "org/name", "main"),
        ("org/name@v1.0", "org/name", "v1.0"),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1"),
        ("hf://org/name@abc", "org/name", "abc"),
        ("hf:org/name", "org/name", "main"),
    ],
)
def test_names(tmp_path: Path, typed: str, repository: str, revision: str) -> None:
    found = resolve(typed, Store(tmp_path))
    assert isinstance(found, HubSource)
    assert (found.repository, found.revision) == (repository, revision)


@pytest.mark.parametrize(
    "typed", ["/no/such", "./none", "../none", "~/none-at-all", "a/b/c", "", "ä"]
)
def test_what_is_neither_folder_nor_name(tmp_path: Path, typed: str) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        resolve(typed, Store(tmp_path))


def test_a_folder_wins_over_a_name_and_a_file_is_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.rename(model.parent / "Qwen3.5-14B")
    monkeypatch.chdir(model.parent)
    found = resolve("Qwen3.5-14B", Store(model.parent))
    assert isinstance(found, FolderSource)
    assert found.lock().name == "Qwen3.5-14B"
    with pytest.raises(UsageError, match="a file, not a folder"):
        resolve("Qwen3.5-14B/config.json", Store(model.parent))


@pytest.mark.parametrize(
    ("names", "rules", "taken"),
    [
        ("a.safetensors a.gguf a.onnx a.h5 a.bin", Rules(), "a.safetensors"),
        ("a.safetensors a.bin", Rules(pickle=True), "a.safetensors"),
        ("a.bin a.bin.index.json x.bin/y", Rules(pickle=True), "a.bin a.bin.index.json"),
        ("a.bin a.bin.index.json optimizer.pt training_args.bin", Rules(), ""),
        ("training_args.bin optimizer.pt a.bin", Rules(pickle=True), "a.bin"),
        ("m.py a.safetensors", Rules(), "a.safetensors"),
        ("m.py a.safetensors", Rules(remote_code=True), "a.safetensors m.py"),
        ("consolidated.safetensors a.safetensors", Rules(), "a.safetensors"),
        ("consolidated.safetensors params.json", Rules(), "consolidated.safetensors params.json"),
        ("original/a.json onnx/config.json .x/a.json .b.json", Rules(), ""),
        ("sub/a.safetensors templates/x.jinja", Rules(), "templates/x.jinja"),
        ("LICENSE README.md USE_POLICY.md logo.png", Rules(), "LICENSE README.md USE_POLICY.md"),
        ("merges.txt tokenizer.model x.tiktoken", Rules(), "merges.txt tokenizer.model x.tiktoken"),
        ("trainer_state.json tf_model.h5.index.json config.json", Rules(), "config.json"),
        ("a.safetensors a.gguf b.gguf", Rules(include=("a.*",)), "a.gguf a.safetensors"),
        ("a.safetensors a.bin", Rules(include=("*.bin",)), "a.bin a.safetensors"),
        ("a.safetensors b.safetensors", Rules(exclude=("b*",)), "a.safetensors"),
        ("x/a.txt x/y/b.txt c.txt", Rules(exclude=("x/",)), "c.txt"),
        ("onnx/a.json b.json", Rules(include=("onnx/*",), exclude=("b.json",)), "onnx/a.json"),
        ("a.gguf b.json", Rules(include=("*.gguf",), exclude=("a*",)), "b.json"),
    ],
)
def test_what_is_taken(names: str, rules: Rules, taken: str) -> None:
    found, left_out = select(names.split(), rules)
    assert found == taken.split()
    assert sorted([*found, *left_out]) == sorted(names.split())


def test_a_pattern_that_matches_nothing_shows_what_there_is() -> None:
    names = [f"{number}.json" for number in range(30)]
    with pytest.raises(UsageError, match=r"--include x\*: the model has no such file") as caught:
        select(names, Rules(include=("x*",)))
    assert len(caught.value.findings) == 21
    assert caught.value.findings[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("include", "exclude", "words"),
    [
        (("a.*",), ("z*",), ""),
        (("*.pdf",), (), "holds no file of the model for --include *.pdf"),
        ((), ("a*",), "holds a.json, which --exclude a* leaves out"),
    ],
)
def test_a_lock_against_patterns(
    include: tuple[str, ...], exclude: tuple[str, ...], words: str
) -> None:
    assert differs(["b.json", "a.json"], include, exclude) == words


def test_a_pickle_that_was_allowed_is_locked_and_followed(model: Path) -> None:
    (model / "extra.bin").write_bytes(b"x")
    assert "extra.bin" not in [file.path for file in source(model).lock().files]
    with pytest.raises(UsageError, match="can't be served") as caught:
        source(model, Rules(include=("extra.bin",))).lock()
    assert "--allow-pickle" in caught.value.mend
    locked = source(model, Rules(include=("extra.bin",), pickle=True)).lock()
    assert locked.risks == (Risk(PICKLE, "extra.bin"),)
    snapshot = source(model).fetch(locked)
    assert "extra.bin" in snapshot.files
    assert snapshot.checkpoint.risks == locked.risks
    with pytest.raises(UsageError, match="can't be served"):
        source(model).fetch(replace(locked, risks=()))


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n# x", "apache-2.0"),
        ("---\r\ntags:\r\n- a\r\nlicense: 'mit'\r\n---\r\n", "mit"),
        ("---\nlicense: other\nlicense_name: qwen-research\n---\n", "qwen-research"),
        ("---\ntags: []\n---\nlicense: mit", ""),
        ("license: mit", ""),
        ("", ""),
    ],
)
def test_the_licence_of_a_card(card: str, licence: str) -> None:
    assert licence_of(card) == licence
