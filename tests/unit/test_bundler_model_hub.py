"""The real huggingface_hub client and our downloader against a Hub that breaks on demand."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bundler import parts, tinymodel
from bundler.models import download as downloading
from bundler.models import resolve
from bundler.models.hub import HubSource
from manifests import canonical, extras
from manifests.checkpoint import Rules
from manifests.errors import BundleError, IntegrityError, SourceError, UsageError
from manifests.exitcodes import ExitCode
from manifests.fit import family
from manifests.lock import COMPUTED, PUBLISHED, Model
from manifests.records import to_data
from tests.support.hub import Hub, git_blob
from tests.support.locked import a_lock
from wheelhouse.store import Store

NAME, TOKEN = "Qwen/Qwen3.5-0.1B", "hf_" + "x" * 34
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "model"
    tinymodel.make(folder, shards=2)
    return folder


@pytest.fixture
def hub(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shutil.copytree(made, tmp_path / "hub" / NAME)
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def source(hub: Hub, store: Store, name: str = NAME, rules: Rules | None = None) -> HubSource:
    found = resolve(name, store, rules, endpoint=hub.endpoint)
    assert isinstance(found, HubSource)
    return replace(found, pause=0.001, timeout=5)


def failure(call: object, kind: type[BundleError]) -> BundleError:
    assert callable(call)
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.mend
    assert TOKEN not in caught.value.render()
    return caught.value


def test_a_model_is_pinned_and_fetched_with_its_published_digests(hub: Hub, store: Store) -> None:
    model = source(hub, store, "Qwen3.5-0.1B").lock()
    assert (model.name, model.source) == ("Qwen3.5-0.1B", f"hf:{NAME}")
    assert (model.revision, model.licence) == (hub.commit(NAME), "apache-2.0")
    published = hub.files(NAME)
    assert [file.path for file in model.files] == sorted(published)
    for file in model.files:
        assert file.digest_from == PUBLISHED
        assert file.sha256
        assert (file.git_blob == "") == (published[file.path].sha256 != "")
    assert not hub.asked_for(FIRST)  # locking downloads no weights
    counted: list[int] = []
    snapshot = source(hub, store).fetch(model, counted.append)
    assert snapshot.model == model
    assert sum(counted) == sum(file.size for file in model.files)
    for name, path in snapshot.files.items():
        assert path.read_bytes() == published[name].path.read_bytes()
    assert snapshot.checkpoint.shards == (FIRST, SECOND)


def test_a_second_fetch_asks_for_nothing(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    source(hub, store).fetch(model)
    before = len(hub.requests)
    offline = replace(source(hub, store), offline=True)
    assert offline.fetch(model).model == model
    assert len(hub.requests) == before
    assert "--offline" in failure(offline.lock, SourceError).what


def test_offline_without_the_files(hub: Hub, store: Store, tmp_path: Path) -> None:
    model = source(hub, store).lock()
    store.path(model.files[0].sha256).unlink()
    offline = replace(source(hub, store), offline=True)
    assert "not in the store" in failure(lambda: offline.fetch(model), SourceError).what


def test_an_object_that_went_bad_in_the_store_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    heard: list[str] = []
    store = Store(tmp_path / "objects", heard.append)
    model = source(hub, store).lock()
    snapshot = source(hub, store).fetch(model)
    path = snapshot.files[FIRST]
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    told: list[int] = []
    assert source(hub, store).fetch(model, told.append).files[FIRST].stat().st_size > 1000
    assert [FIRST in line for line in heard] == [True]
    assert sum(told) == sum(file.size for file in model.files)
    assert store.intact(path.name, FIRST)


@pytest.mark.parametrize("kind", ["short", "error500", "busy", "no-range", "flip", "redirect"])
@pytest.mark.parametrize("name", [FIRST, "config.json"])
def test_what_passes_is_tried_again(hub: Hub, store: Store, kind: str, name: str) -> None:
    hub.fault(name, kind, times=1)
    model = source(hub, store).lock()
    snapshot = source(hub, store).fetch(model)
    assert snapshot.files[name].read_bytes() == hub.files(NAME)[name].path.read_bytes()
    assert hub.faults[name].times == (1 if kind == "no-range" else 0)


def test_a_broken_download_is_continued_not_repeated(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "short", times=2)
    counted: list[int] = []
    source(hub, store).fetch(model, counted.append)
    size = hub.files(NAME)[FIRST].size
    begins = [request.range for request in hub.asked_for(FIRST)]
    assert begins == ["", f"bytes={size // 3}-", f"bytes={size // 3 + (size - size // 3) // 3}-"]
    assert sum(counted) == sum(file.size for file in model.files)


@pytest.mark.parametrize("kind", ["no-range", "wrong-range"])
def test_a_server_that_can_t_continue(hub: Hub, store: Store, kind: str) -> None:
    model = source(hub, store).lock()
    (file,) = (file for file in model.files if file.path == FIRST)
    with pytest.raises(KeyboardInterrupt), store.partial(file.sha256, FIRST) as partial:
        assert partial
        partial.write(hub.files(NAME)[FIRST].path.read_bytes()[:1000])
        raise KeyboardInterrupt
    hub.fault(FIRST, kind, times=1)
    counted: list[int] = []
    source(hub, store).fetch(model, counted.append)
    assert hub.asked_for(FIRST)[0].range == "bytes=1000-"
    assert sum(counted) == sum(file.size for file in model.files)


def test_a_kill_in_the_middle_is_continued(hub: Hub, store: Store, tmp_path: Path) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "stall", times=1)
    script = (
        "import sys; from pathlib import Path; from bundler.models import resolve;"
        "from wheelhouse.store import Store;"
        "s = resolve(sys.argv[1], Store(Path(sys.argv[2])), endpoint=sys.argv[3]);"
        "s.fetch(s.lock())"
    )
    (file,) = (file for file in model.files if file.path == FIRST)
    partial = store.path(file.sha256).with_name(f"{file.sha256}.partial")
    command = [sys.executable, "-c", script, NAME, str(store.root), hub.endpoint]
    with subprocess.Popen(command) as child:
        try:
            deadline = time.monotonic() + 30
            while not (partial.exists() and partial.stat().st_size >= file.size // 3):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            child.kill()
    assert not store.has(file.sha256)
    source(hub, store).fetch(model)
    assert hub.asked_for(FIRST)[-1].range == f"bytes={file.size // 3}-"


@pytest.mark.parametrize(
    ("prepare", "environment", "words"),
    [
        # A limit on the size of files fails a write as a full disk does.
        (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));",
            {},
            "FilesystemError File too large (while storing model-0000",
        ),
        ("", {"HF_HUB_OFFLINE": "1"}, "SourceError model-0000"),
    ],
)
def test_a_failure_of_this_machine_is_not_tried_again(
    hub: Hub, store: Store, prepare: str, environment: dict[str, str], words: str
) -> None:
    model = source(hub, store).lock()
    (store.root.parent / "model").write_bytes(canonical.dumps(to_data(model)))
    script = prepare + (
        "import sys; from pathlib import Path; from bundler.models import resolve;"
        "from manifests import canonical, errors, records, lock;"
        "from wheelhouse.store import Store;"
        "s = resolve(sys.argv[1], Store(Path(sys.argv[2])), endpoint=sys.argv[3]);"
        "data = canonical.loads(Path(sys.argv[4]).read_bytes());"
        "model = records.from_data(lock.Model, data)\n"
        "try: s.fetch(model)\n"
        "except errors.BundleError as e: print(type(e).__name__, e.what)"
    )
    arguments = [NAME, str(store.root), hub.endpoint, str(store.root.parent / "model")]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert words in done.stdout
    assert len(hub.asked_for(FIRST)) == (0 if environment else 1)
    source(hub, store).fetch(model)


def test_a_stalled_body_is_given_up_and_continued(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "stall", times=1)
    replace(source(hub, store), timeout=0.3).fetch(model)
    assert len(hub.asked_for(FIRST)) == 2


@pytest.mark.parametrize(
    ("kind", "words", "error"),
    [
        ("flip", "pinned as sha256", IntegrityError),
        ("error500", "answered 500", SourceError),
        ("html", "web page", SourceError),
        ("html-unknown-length", "web page", SourceError),
        ("gone", "no longer on the Hub", SourceError),
        ("gated", "access refused (403)", SourceError),
        ("unauthorised", "access refused (401)", SourceError),
        ("long", "more than", SourceError),
    ],
)
@pytest.mark.parametrize("name", [FIRST, "tokenizer.json"])
def test_what_does_not_pass(
    hub: Hub, store: Store, name: str, kind: str, words: str, error: type[BundleError]
) -> None:
    def run() -> None:
        found = source(hub, store)
        found.fetch(found.lock())

    hub.fault(name, kind)
    raised = failure(run, error)
    expected = words.replace("sha256", "git blob") if name == "tokenizer.json" else words
    assert expected in raised.what
    assert (NAME if "refused" in words else name) in raised.what
    hub.faults.clear()
    run()  # the same command again goes on


def test_both_digests_are_named_where_bytes_differ(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "flip")
    raised = failure(lambda: source(hub, store).fetch(model), IntegrityError)
    wrong = bytearray(hub.files(NAME)[FIRST].path.read_bytes())
    wrong[len(wrong) // 2] ^= 1
    assert hub.files(NAME)[FIRST].sha256 in raised.what
    assert hashlib.sha256(wrong).hexdigest() in raised.what
    assert len(hub.asked_for(FIRST)) == 2
    assert not store.has(hub.files(NAME)[FIRST].sha256)


@pytest.mark.parametrize("name", [FIRST, "config.json"])
def test_a_hub_that_publishes_a_wrong_digest(hub: Hub, store: Store, name: str) -> None:
    hub.fault(name, "bad-digest")

    def run() -> Model:
        found = source(hub, store)
        return found.fetch(found.lock()).model

    raised = failure(run, IntegrityError)
    assert name in raised.what
    assert "0" * 40 in raised.what


def test_a_repository_that_moved_on_after_the_lock(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    (hub.root / NAME / FIRST).write_bytes(tinymodel.safetensors({"a": ((1,), b"\0\0")}))
    assert hub.commit(NAME) != model.revision
    raised = failure(lambda: source(hub, store).fetch(model), SourceError)
    assert "at the commit that was pinned" in raised.what


def test_the_token_goes_to_the_hub_and_nowhere_else(hub: Hub, store: Store, tmp_path: Path) -> None:
    hub.fault(FIRST, "redirect")
    model = source(hub, store).lock()
    source(hub, store).fetch(model)
    at_home = [r for r in hub.requests if r.host in hub.endpoint]
    elsewhere = [r for r in hub.requests if r.host in hub.cdn]
    assert elsewhere
    assert all(request.token for request in at_home)
    assert not any(request.token for request in elsewhere)
    assert TOKEN not in repr(model)
    for path in store.root.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()


def test_weights_in_xet_storage_come_by_plain_http_and_the_same_digests(
    hub: Hub, store: Store
) -> None:
    plain = source(hub, store).lock()
    hub.xet = True
    assert source(hub, store).lock() == plain
    snapshot = source(hub, store).fetch(plain)
    assert snapshot.files[FIRST].read_bytes() == hub.files(NAME)[FIRST].path.read_bytes()
    elsewhere = [request for request in hub.requests if request.host in hub.cdn]
    assert elsewhere
    assert not any(request.token for request in elsewhere)
    assert not any("xet" in request.path for request in hub.requests)


def test_an_unknown_model_gets_the_nearest_names(hub: Hub, store: Store) -> None:
    raised = failure(source(hub, store, "Qwen3.5-14B").lock, SourceError)
    assert "Qwen/Qwen3.5-14B: no such model" in raised.what
    assert raised.findings == (f"there is {NAME}",)
    assert raised.exit_code == ExitCode.SOURCE


def test_an_unknown_model_gets_what_fits_the_target_too(hub: Hub, store: Store) -> None:
    asked = replace(source(hub, store, "no/thing"), advice=partial(family.advice, 24 << 30, 1, ()))
    raised = failure(asked.lock, SourceError)
    assert raised.findings[0].startswith("fits 25.77 GB: Qwen3.5-9B")


def test_a_private_model_says_how_to_get_in(hub: Hub, store: Store) -> None:
    raised = failure(source(hub, store, "no/thing").lock, SourceError)
    assert "or not for you" in raised.what
    assert "hf auth login" in raised.mend
    hub.fault("api", "gated")
    raised = failure(source(hub, store).lock, SourceError)
    assert f"accept its conditions at {hub.endpoint}/{NAME}" in raised.mend
    assert "HF_TOKEN" in raised.mend


def test_an_unknown_revision(hub: Hub, store: Store) -> None:
    raised = failure(source(hub, store, f"{NAME}@v9").lock, SourceError)
    assert "no revision 'v9'" in raised.what
    assert source(hub, store, f"hf://{NAME}@{hub.commit(NAME)}").lock().revision == hub.commit(NAME)


def test_a_hub_that_is_not_there(store: Store) -> None:
    found = replace(
        HubSource(NAME, store, Rules(), endpoint="http://user:secret@127.0.0.1:9"), pause=0.001
    )
    raised = failure(found.lock, SourceError)
    for way_out in ("HF_ENDPOINT", "local folder", "--offline"):
        assert way_out in raised.mend
    assert "secret" not in raised.render()


@pytest.mark.parametrize(
    ("kind", "words"),
    [("html", "not that of a Hub"), ("error500", "500"), ("gated", "403"), ("unauthorised", "401")],
)
def test_an_api_that_answers_something_else(hub: Hub, store: Store, kind: str, words: str) -> None:
    hub.fault("api", kind)
    assert words in failure(source(hub, store).lock, SourceError).what
    hub.fault("api", "error500", times=2)
    source(hub, store).lock()


def test_the_endpoint_of_the_environment(
    hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
    found = resolve(NAME, store)
    assert found.lock().revision == hub.commit(NAME)


def test_what_can_be_seen_early_is_told_before_any_weights(hub: Hub, store: Store) -> None:
    rules = Rules(architectures=("LlamaForCausalLM",))
    raised = failure(source(hub, store, rules=rules).lock, UsageError)
    assert "unknown-architecture" in raised.findings[0]
    (hub.root / NAME / SECOND).unlink()
    raised = failure(source(hub, store).lock, IntegrityError)
    assert SECOND in raised.findings[0]
    assert not hub.asked_for(FIRST)


def test_only_what_is_served_is_taken(hub: Hub, store: Store) -> None:
    for name in ("pytorch_model.bin", "original/x.pth", "onnx/model.onnx", "model.gguf", "a.py"):
        path = hub.root / NAME / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    (hub.root / NAME / "LICENSE").write_text("Apache")
    (hub.root / NAME / "empty.json").write_text("[]")
    model = source(hub, store).lock()
    names = {file.path for file in model.files}
    assert {"LICENSE", "README.md", "empty.json", FIRST} <= names
    assert not names & {"pytorch_model.bin", "original/x.pth", "onnx/model.onnx", "a.py"}
    assert "model.gguf" not in names


def test_risks_that_are_allowed_are_locked_and_hold_for_who_follows(hub: Hub, store: Store) -> None:
    folder = hub.root / NAME
    (folder / "modeling_x.py").write_text("class X: ...")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"A": "modeling_x.X"}}))
    raised = failure(source(hub, store).lock, UsageError)
    assert "--allow-remote-code" in raised.mend
    model = source(hub, store, rules=Rules(remote_code=True)).lock()
    assert [risk.text() for risk in model.risks] == [
        "modeling_x.py: code that comes with the model (remote-code)",
        "config.json: `auto_map` loads code (auto-map)",
    ]
    assert not hub.asked_for(FIRST)
    snapshot = source(hub, store).fetch(model)
    assert snapshot.checkpoint.risks == model.risks
    # What the lock does not say is not allowed by it.
    failure(lambda: source(hub, store).fetch(replace(model, risks=())), UsageError)


@pytest.fixture
def second(hub: Hub) -> Path:
    """The folder of a repository whose code the model names."""
    config = hub.root / NAME / "config.json"
    changes = {"auto_map": {"A": "org/base--m.X"}}
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    folder = hub.root / "org/base"
    folder.mkdir(parents=True)
    for name in ("m.py", "helper.py", "weights.bin", "config.json"):
        (folder / name).write_text(f"# {name}")
    return folder


def test_code_of_a_second_repository_is_pinned_and_laid_out_as_in_a_cache(
    hub: Hub, store: Store, second: Path, tmp_path: Path
) -> None:
    failure(source(hub, store).lock, UsageError)  # not without the flag
    model = source(hub, store, rules=Rules(remote_code=True)).lock()
    folder, commit = "hub/models--org--base", hub.commit("org/base")
    snapshot = f"{folder}/snapshots/{commit}"
    added = [file.path for file in model.files if file.path.startswith("hub/")]
    assert added == [f"{folder}/refs/main", f"{snapshot}/helper.py", f"{snapshot}/m.py"]
    assert all(file.sha256 for file in model.files)
    for where in (store, Store(tmp_path / "another")):  # where the lock was made, and elsewhere
        files = source(hub, where).fetch(model).files
        assert files[f"{folder}/refs/main"].read_text() == commit
        assert files[f"{snapshot}/m.py"].read_text() == "# m.py"
    assert [risk.path for risk in model.risks] == [
        f"{snapshot}/helper.py",
        f"{snapshot}/m.py",
        "config.json",
    ]


def test_a_second_repository_that_is_not_there_is_named(
    hub: Hub, store: Store, second: Path
) -> None:
    allowed = source(hub, store, rules=Rules(remote_code=True))
    (second / "m.py").unlink()
    raised = failure(allowed.lock, UsageError)
    assert "m.py of another repository, org/base (second-repository)" in raised.findings[0]
    assert "as hub/models--org--base" in raised.mend
    shutil.rmtree(second)
    raised = failure(allowed.lock, SourceError)
    assert f"{NAME}: its `auto_map` loads code of a second repository: org/base" in raised.what


VOCABULARY = b"aGk= 0\n"


@pytest.fixture
def vocabulary(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> extras.Vocabulary:
    """One that the tiny model's server fetches, published beside it."""
    (hub.root / "files/words").mkdir(parents=True)
    (hub.root / "files/words/w.tiktoken").write_bytes(VOCABULARY)
    one = extras.Vocabulary(
        "qwen3_5_text",
        "w.tiktoken",
        len(VOCABULARY),
        hashlib.sha256(VOCABULARY).hexdigest(),
        f"{hub.endpoint}/files/words/resolve/main/w.tiktoken",
    )
    monkeypatch.setattr(extras, "vocabularies", lambda: (one,))
    return one


def test_a_vocabulary_that_the_server_fetches_goes_in(
    hub: Hub, store: Store, vocabulary: extras.Vocabulary
) -> None:
    model = source(hub, store).lock()
    assert (vocabulary.path, vocabulary.sha256) in [(f.path, f.sha256) for f in model.files]
    files = source(hub, store).fetch(model).files
    assert files["vocabularies/w.tiktoken"].read_bytes() == VOCABULARY
    (asked,) = hub.asked_for("w.tiktoken")
    assert not asked.token  # its publisher is no Hub


def test_a_vocabulary_that_is_another(
    hub: Hub, store: Store, vocabulary: extras.Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = source(hub, store).lock()
    monkeypatch.setenv("TIKTOKEN_ENCODINGS_BASE", f"{hub.endpoint}/mirror/words/resolve/main/")
    (hub.root / "mirror/words").mkdir(parents=True)
    (hub.root / "mirror/words/w.tiktoken").write_bytes(VOCABULARY[::-1])
    raised = failure(lambda: source(hub, store).fetch(model), IntegrityError)
    assert f"{vocabulary.path}: pinned as sha256 {vocabulary.sha256}" in raised.what
    assert "/mirror/words" in raised.why


def test_patterns_override_what_is_taken(hub: Hub, store: Store) -> None:
    (hub.root / NAME / "notes.pdf").write_bytes(b"x")
    rules = Rules(include=("*.pdf",), exclude=("README*",))
    names = {file.path for file in source(hub, store, rules=rules).lock().files}
    assert "notes.pdf" in names
    assert "README.md" not in names
    raised = failure(source(hub, store, rules=Rules(exclude=("*.gguf",))).lock, UsageError)
    assert "--exclude *.gguf: the model has no such file" in raised.what
    assert "there is README.md" in raised.findings
    raised = failure(source(hub, store, rules=Rules(exclude=("config.json",))).lock, UsageError)
    assert "config.json: missing" in raised.findings


def test_digests_that_nobody_published_are_never_passed_off_as_verified(
    hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.digests = False
    model = source(hub, store).lock()
    assert {file.digest_from for file in model.files} == {COMPUTED}
    for file in model.files:
        data = hub.files(NAME)[file.path].path.read_bytes()
        assert file.sha256 == hashlib.sha256(data).hexdigest()
    source(hub, store).fetch(model)
    (sentence,) = parts.unpublished(a_lock(model=model))
    assert "sha256 computed here, of what its Hub publishes no digest: README.md, " in sentence
    monkeypatch.setattr(downloading, "SMALL", 10)
    assert "no sha256" in failure(source(hub, store).lock, SourceError).what


def test_an_empty_file(hub: Hub, store: Store) -> None:
    (hub.root / NAME / "NOTICE").write_bytes(b"")
    model = source(hub, store).lock()
    (file,) = (file for file in model.files if file.path == "NOTICE")
    assert (file.size, file.git_blob) == (0, git_blob(b""))
    assert source(hub, store).fetch(model).files["NOTICE"].read_bytes() == b""


def test_offline_a_small_file_without_a_digest_is_not_asked_for(hub: Hub, store: Store) -> None:
    """Of a lock that names what the Hub has published no sha256 for."""
    locked = source(hub, store).lock()
    (one, *_) = (file for file in locked.files if file.path == "config.json")
    bare = replace(locked, files=(replace(one, sha256=""),))
    asked = len(hub.asked_for("config.json"))
    offline = replace(source(hub, store), offline=True)
    error = failure(lambda: offline.fetch_files(bare), SourceError)
    assert "--offline" in error.render()
    assert len(hub.asked_for("config.json")) == asked
