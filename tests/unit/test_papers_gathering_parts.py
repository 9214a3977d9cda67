"""Models of a Hub and adapters: just what says something of them is fetched, for a bill."""

import dataclasses

import pytest

from bundler.papers import bill as bills
from bundler.papers import gathering
from bundler.papers.gathering import Ways
from manifests.console import Console
from manifests.errors import SourceError
from manifests.lock import COMPUTED, Adapter, Model, ModelFile
from tests.support.gathered import Gathered
from tests.support.hub import Hub, git_blob
from tests.support.simulator import sha256
from wheelhouse.sources import Sources

NAME = "Qwen/Tiny"
WEIGHTS = b"\0" * 1000
FILES = {
    "LICENSE": b"Apache License\n",
    "README.md": b"---\nbase_model: Qwen/Base\n---\n",
    "config.json": b"{}",
    "model.safetensors": WEIGHTS,
}


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / "hub" / NAME
    folder.mkdir(parents=True)
    for path, data in FILES.items():
        (folder / path).write_bytes(data)
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def parts(tmp_path):
    return Gathered(tmp_path)


def of_hub(hub):
    """As a lock may have it: of small files the Hub publishes the blob's id alone."""
    files = tuple(
        ModelFile(path, len(data), sha256(data))
        if path == "model.safetensors"
        else ModelFile(path, len(data), git_blob=git_blob(data))
        for path, data in FILES.items()
    )
    return Model("Tiny", f"hf:{NAME}", hub.commit(NAME), files, licence="apache-2.0")


def gathered(parts, hub, locked, **changes):
    ways = Ways(parts.workshop, Sources(""), endpoint=hub.endpoint, **changes)
    return gathering.of_lock(locked, ways, Console(quiet=True))


def test_a_model_of_a_hub(parts, hub):
    model = of_hub(hub)
    made = gathered(parts, hub, parts.lock(model=model))
    (one,) = (one for one in made.components if one.kind == bills.MODEL)
    assert one.purl == f"pkg:huggingface/{NAME}@{model.revision}"
    assert one.url == f"https://huggingface.co/{NAME}/tree/{model.revision}"
    assert (one.base, [text.content for text in one.texts]) == ("Qwen/Base", ["Apache License\n"])
    assert {file.path: file.sha256 for file in one.files} == {
        path: sha256(data) for path, data in FILES.items()
    }
    assert not hub.asked_for("model.safetensors")
    # The bundle's lock is the one with all digests.
    whole = dataclasses.replace(model, files=one.files)
    assert made.lock_sha256 == parts.lock(model=whole).digest()
    again = gathered(parts, hub, parts.lock(model=whole), offline=True)
    assert again == made


def test_a_hub_that_may_not_be_asked(parts, hub):
    with pytest.raises(SourceError, match="--offline"):
        gathered(parts, hub, parts.lock(model=of_hub(hub)), offline=True)


def test_an_adapter_of_a_folder(parts, hub, tmp_path):
    config = b'{"base_model_name_or_path": "/home/somebody/Qwen3.5-Tiny"}'
    contents = {"adapter_config.json": config, "adapter_model.safetensors": WEIGHTS}
    files = tuple(ModelFile(p, len(d), sha256(d), "", COMPUTED) for p, d in contents.items())
    style = Adapter("style", "folder:other", "1" * 64, "Tiny", 4, files)
    folder = tmp_path / "other"
    folder.mkdir()
    for path, data in contents.items():
        (folder / path).write_bytes(data)
    locked = parts.lock(model=of_hub(hub), adapters=(style,))
    made = gathered(parts, hub, locked, models=(tmp_path, folder))
    (one,) = (one for one in made.components if one.kind == bills.ADAPTER)
    (model,) = (one for one in made.components if one.kind == bills.MODEL)
    assert (one.requires, one.base) == ((model.ref,), "Qwen3.5-Tiny")
    assert (one.digest_from, one.licence.text) == (COMPUTED, "")
