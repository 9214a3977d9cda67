"""What models bring beside their own repositories, and what is missing of it."""

import json
import shutil
from pathlib import Path

import pytest

from bundler import tinymodel
from bundler.models import extras as getting
from manifests import extras
from manifests.checkpoint import Rules, inspect
from manifests.errors import BundleError

COMMIT = "c" * 40
FOLDER = "hub/models--org--base"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extras") / "model"
    tinymodel.make(folder)
    return folder


@pytest.fixture
def model(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "model"))


def config(model, **changes):
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def findings(model, rules=None):
    with pytest.raises(BundleError) as caught:
        inspect(model, rules)
    return caught.value.findings, caught.value.mend


def test_every_vocabulary_can_be_fetched_and_checked():
    for one in extras.vocabularies():
        assert one.url.startswith("https://")
        assert one.url.endswith(f"/{one.file}")
        assert len(bytes.fromhex(one.sha256)) == 32
        assert one.size > 0


def test_a_model_whose_server_fetches_nothing():
    assert extras.needed({"model_type": "qwen3_5"}) == ()
    assert extras.needed([]) == ()


def test_a_vocabulary_that_is_missing_or_another(model):
    config(model, model_type="gpt_oss")
    (missing,), mend = findings(model)
    assert missing.startswith("vocabularies/o200k_base.tiktoken: missing")
    assert "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken" in mend
    (model / "vocabularies").mkdir()
    (model / "vocabularies/o200k_base.tiktoken").write_bytes(b"other")
    (other,), _ = findings(model)
    assert "published is 446a9538cb6c348e" in other


def test_code_of_another_repository_in_a_folder(model):
    config(model, auto_map={"AutoModel": "org/base--m.X"})
    allowed = Rules(remote_code=True)
    (missing,), mend = findings(model, allowed)
    assert "m.py of another repository, org/base (second-repository)" in missing
    assert f"as {FOLDER}" in mend
    snapshot = model / FOLDER / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "m.py").write_text("")
    assert findings(model, allowed)[0] == (missing,)  # nothing leads to the snapshot
    (model / FOLDER / "refs").mkdir()
    (model / FOLDER / "refs/main").write_text(COMMIT)
    assert inspect(model, allowed).risks


def test_a_server_is_told_where_to_look(model):
    assert extras.variables(model) == {}
    (model / "hub").mkdir()
    (model / "vocabularies").mkdir()
    assert extras.variables(model) == {
        "HF_HUB_CACHE": f"{model}/hub",
        "TIKTOKEN_ENCODINGS_BASE": f"{model}/vocabularies",
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (
            f"{FOLDER}/snapshots/{COMMIT}/sub/m.py",
            getting.Origin("org/base", COMMIT, "sub/m.py"),
        ),
        (f"{FOLDER}/refs/main", None),
        (f"{FOLDER}/snapshots/main/m.py", None),
        ("hub/m.py", None),
        ("m.py", None),
    ],
)
def test_where_a_file_comes_from(path, found):
    assert getting.origin(path) == found


def test_a_reference_holds_the_commit_of_its_own_snapshot():
    names = [f"hub/models--a--b/snapshots/{'a' * 40}/x.py", f"{FOLDER}/snapshots/{COMMIT}/m.py"]
    assert getting.pointer(f"{FOLDER}/refs/main", names) == COMMIT.encode()
    assert getting.pointer("hub/models--x--y/refs/main", names) == b""
    assert getting.pointer(names[0], names) == b""


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://mirror.example/enc/", "https://mirror.example/enc/o200k_base.tiktoken"),
        (
            "/some/folder",
            "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        ),
    ],
)
def test_a_mirror_of_vocabularies(monkeypatch, base, url):
    monkeypatch.setenv("TIKTOKEN_ENCODINGS_BASE", base)
    assert getting.vocabulary_url("vocabularies/o200k_base.tiktoken") == url
    assert getting.vocabulary_url("vocabularies/other") == ""
