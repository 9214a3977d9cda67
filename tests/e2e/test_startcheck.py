"""The real server's parser and tokenizer, asked as they are before every start."""

import json
import shutil
import subprocess

import pytest

from bundlectl import config, environment, inquiry, models, options, planned, startcheck
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.trial import Question
from tests.support.small import control

pytestmark = pytest.mark.e2e

#: Arguments, and what the real parser says of them as far as it can be told from its options.
CASES = {
    ("--seed", "0"): True,
    ("--seed", "zero"): False,
    ("--max_num_batched_tokens=4096",): True,
    ("--no-enable-prefix-caching", "-tp", "1"): True,
    ("--enable-prefix-caching=yes",): False,
    ("--load-format", "safetensors"): True,
    ("--kv-cache-dtype", "int1"): False,
    ("--kv-cache-dtype", "auto"): True,
    ("--gpu-memory-utilization", "much"): False,
    ("--default-chat-template-kwargs", "{'a': 1}"): False,
    ("--disable-log-requests",): False,
    ("--device", "cuda"): False,
    ("--tokenizer-config-path", "x"): False,
    ("--seed",): False,
    ("-O3",): None,
    ("--compilation-config.level", "3"): None,
    ("--compilation-config", "nonsense"): None,
    ("--max-model-len", "8k"): None,
    ("--max-model-len", "8192"): True,
    ("--allowed-origins", '["*"]'): True,
}
ASKED = """\
import contextlib, json, os, sys
from importlib import import_module
module = import_module(sys.argv[1])
parser = module.make_arg_parser(module.FlexibleArgumentParser())
said = []
for words in json.loads(sys.argv[2]):
    try:
        with contextlib.redirect_stderr(open(os.devnull, "w")):
            parser.parse_args(words)
        said.append(True)
    except SystemExit:
        said.append(False)
os.write(1, b"\\n" + json.dumps(said).encode())
"""


@pytest.fixture(scope="module")
def layout(demo):
    found = Layout(demo[1] / "host")
    environment.prepare(found)
    return found


@pytest.fixture(scope="module")
def release(layout):
    return layout.current_release()


@pytest.fixture(scope="module")
def model(layout, release):
    return models.to_serve(layout, release)


@pytest.fixture
def restored(layout):
    before = layout.config_file.read_bytes()
    yield layout.config_file
    layout.config_file.write_bytes(before)


def test_what_did_not_change_is_not_asked_again(layout, release, model, monkeypatch):
    """The demo has started the server, so that all of it was asked."""
    monkeypatch.setattr(inquiry, "ask", lambda *_: pytest.fail("asked"))
    settings = config.load(layout.config_file)
    assert startcheck.check(layout, release, settings, model) == ()


def test_a_wrong_argument_is_told_with_its_line_and_the_nearest(layout, restored):
    text = restored.read_text()
    for argument, told in (
        ("--max-num-batched-token=1", "part of: --max-num-batched-tokens"),
        ("--max-batched-tokens=1", "did you mean --max-num-batched-tokens"),
        ("--enable-auto-tool-choice", "requires --tool-call-parser"),
        ("--compilation-config=nonsense", "argument --compilation-config/-cc: "),
    ):
        restored.write_text(
            text.replace("extra_arguments = []", f'extra_arguments = ["{argument}"]')
        )
        done = control(layout.prefix, "config", "check")
        assert done.returncode == ExitCode.USAGE, done.stdout
        assert told in done.stderr
        assert "serve.toml:" in done.stderr
        assert "extra_arguments" in done.stderr


def test_the_parser_itself_says_what_was_read_from_its_options(layout, release, model):
    plan = planned.plan(layout, release, ServeConfig(), model)
    known = startcheck._memory(layout, release, plan).recall("options")
    done = subprocess.run(
        [str(plan.python), "-s", "-c", ASKED, plan.server.parser, json.dumps(list(CASES))],
        env=plan.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    said = dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))
    for words, expected in CASES.items():
        reading = options.read(known.options, words)
        judged = None if reading.doubtful else not reading.problems
        assert judged is expected, (words, reading)
        assert judged in (None, said[words]), words


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        (
            "tokenizer.json",
            lambda t: t["model"].update(merges=[["no", "such"]]),
            ("error", "out of"),
        ),
        (
            "tokenizer_config.json",
            lambda c: c.update(chat_template="{% if %}"),
            ("template", "Error"),
        ),
    ],
)
def test_a_tokenizer_that_does_not_load_is_found(
    layout, release, model, tmp_path, file, change, told
):
    plan = planned.plan(layout, release, ServeConfig(), model)
    folder = shutil.copytree(plan.folder, tmp_path / "model")
    value = json.loads((folder / file).read_text("utf-8"))
    change(value)
    (folder / file).write_text(json.dumps(value), "utf-8")
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    answer = inquiry.ask(Question(str(folder)), plan.python, plan.environment, layout.run)
    part, words = told
    assert words in getattr(answer, part)
    with pytest.raises(UsageError, match=f"{model.name}: "):
        startcheck._refuse_tokenizer(answer, model)


def test_a_rehearsal_on_the_real_server(layout):
    """Where no release serves; what it makes lies in the caches afterwards."""
    done = control(layout.prefix, "rehearse", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["seconds"] > 0
    log = (layout.logs / "rehearsal.log").read_text(errors="replace")
    assert "REHEARSAL-NOT-FOR-USE" in log
    assert control(layout.prefix, "status").returncode == ExitCode.SERVER
