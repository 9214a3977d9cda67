"""LoRA adapters from a folder and from a Hub: pinned, compared, fetched once."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.models.adapter import FolderAdapter, HubAdapter, resolve_adapter
from bundler.tinymodel import safetensors
from manifests import adapter
from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.lock import COMPUTED, PUBLISHED
from tests.support import lora
from tests.support.hub import Hub
from wheelhouse.store import Store

NAME = "Org/Poet-LoRA"
TAKEN = ["LICENSE", "README.md", adapter.CONFIG, adapter.WEIGHTS]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A repository as people publish them, with what training left behind."""
    folder = lora.make(tmp_path_factory.mktemp("made") / "poet", rank=4)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Poet\n")
    (folder / "LICENSE").write_text("free\n")
    for name in ("training_args.bin", "tokenizer.json", "optimizer.pt"):
        (folder / name).write_bytes(b"left behind")
    return folder


@pytest.fixture
def hub(made, tmp_path, monkeypatch) -> Iterator[Hub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    shutil.copytree(made, tmp_path / "hub" / NAME)
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def from_hub(hub: Hub, store: Store, text: str = NAME, *, offline: bool = False) -> HubAdapter:
    found = resolve_adapter(text, store, endpoint=hub.endpoint, offline=offline)
    assert isinstance(found, HubAdapter)
    patient = dataclasses.replace(found.hub, pause=0.001, timeout=5)
    return dataclasses.replace(found, hub=patient)


def test_a_folder_is_hashed_here(made, store):
    source = resolve_adapter(str(made), store)
    locked, note = source.lock("tiny-qwen3.5")
    assert [file.path for file in locked.files] == TAKEN
    assert {file.digest_from for file in locked.files} == {COMPUTED}
    assert (locked.name, locked.base, locked.rank) == ("poet", "tiny-qwen3.5", 4)
    assert note == ""
    assert source.has(locked)
    assert sorted(source.fetch(locked)) == TAKEN


def test_an_adapter_for_another_model_is_noted(made, store):
    _, note = resolve_adapter(f"{made}=verse", store).lock("Other-9B")
    assert note == "the adapter verse was trained on tiny-qwen3.5, and is served with Other-9B"


def test_a_folder_that_changed_after_it_was_locked(made, store, tmp_path):
    folder = Path(shutil.copytree(made, tmp_path / "copy"))
    source = FolderAdapter(folder, "copy")
    locked, _ = source.lock("m")
    (folder / "LICENSE").unlink()
    with pytest.raises(IntegrityError, match="LICENSE"):
        source.fetch(locked)


def test_a_hub_publishes_the_digests(hub, store):
    source = from_hub(hub, store)
    locked, _ = source.lock("tiny-qwen3.5")
    assert [file.path for file in locked.files] == TAKEN
    assert {file.digest_from for file in locked.files} == {PUBLISHED}
    assert (locked.name, locked.source) == ("Poet-LoRA", f"hf:{NAME}")
    assert locked.revision == hub.commit(NAME)
    assert not hub.asked_for(adapter.WEIGHTS)  # not before it is fetched
    files = source.fetch(locked)
    assert sorted(files) == TAKEN
    asked = len(hub.asked_for(adapter.WEIGHTS))
    assert from_hub(hub, store, offline=True).fetch(locked) == files
    assert len(hub.asked_for(adapter.WEIGHTS)) == asked


def test_a_flipped_byte_is_named(hub, store):
    source = from_hub(hub, store)
    locked, _ = source.lock("m")
    hub.fault(adapter.WEIGHTS, "flip")
    with pytest.raises(IntegrityError, match=adapter.WEIGHTS):
        source.fetch(locked)


def test_weights_are_judged_once_they_are_here(hub, store, tmp_path):
    path = tmp_path / "hub" / NAME / adapter.WEIGHTS
    path.write_bytes(safetensors({"lm_head.weight": ((1,), bytes(2))}))
    source = from_hub(hub, store)
    locked, _ = source.lock("m")
    with pytest.raises(UsageError, match="can't be served"):
        source.fetch(locked)


def test_pickles_are_refused_before_they_are_fetched(hub, store, tmp_path):
    folder = tmp_path / "hub" / NAME
    (folder / adapter.WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(UsageError, match="can't be served") as caught:
        from_hub(hub, store).lock("m")
    assert any("adapter_model.bin: a pickle" in line for line in caught.value.findings)
    assert not hub.asked_for("adapter_model.bin")


def test_offline_asks_nobody(hub, store):
    with pytest.raises(SourceError, match="--offline"):
        from_hub(hub, store, offline=True).lock("m")


@pytest.mark.parametrize(
    ("text", "name", "revision"),
    [
        ("Org/Name", "Name", "main"),
        ("Org/Name@v2", "Name", "v2"),
        ("hf:Org/Name@v2=short", "short", "v2"),
        ("Org/Name=a.b-c_d", "a.b-c_d", "main"),
    ],
)
def test_names_of_hub_adapters(store, text, name, revision):
    found = resolve_adapter(text, store)
    assert isinstance(found, HubAdapter)
    assert (found.name, found.hub.repository, found.hub.revision) == (name, "Org/Name", revision)


@pytest.mark.parametrize(
    "text",
    [
        *("", "./nothing", "=name", "Org/Name=-x", "Org/Name=ä", "a b=c"),
        *("~nosuchuser/x", "~nosuchuser/x=name"),
    ],
)
def test_what_names_no_adapter(store, text):
    with pytest.raises(UsageError):
        resolve_adapter(text, store)


def test_a_folder_may_have_an_equals_sign(made, store, tmp_path):
    folder = Path(shutil.copytree(made, tmp_path / "rank=4"))
    assert resolve_adapter(str(folder), store).name == "rank-4"
    assert resolve_adapter(f"{folder}=x", store).name == "x"


def test_another_repository_or_name_is_not_the_locked_one(hub, store):
    locked, _ = from_hub(hub, store).lock("m")
    assert from_hub(hub, store).has(locked)
    assert not from_hub(hub, store, f"{NAME}=other").has(locked)
    assert not from_hub(hub, store, "Org/Other=Poet-LoRA").has(locked)
