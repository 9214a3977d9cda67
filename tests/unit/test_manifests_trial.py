"""The program that runs under the server's Python, with stand-ins for the two libraries there."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bundlectl import inquiry
from manifests import trial
from manifests.errors import ServerError
from manifests.trial import MISSING, Answer, Option, Question
from tests.support import transformers_stub

SERVER = """\
import argparse, sys
print("a library that talks")
FlexibleArgumentParser = argparse.ArgumentParser
def make_arg_parser(parser):
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--dtype", choices=["auto", "half"], default="auto")
    parser.add_argument("--names", nargs="+", type=json)
    return parser
def json(text):
    raise argparse.ArgumentTypeError("not today")
def validate_parsed_serve_args(arguments):
    if arguments.dtype == "half" and arguments.tensor_parallel_size > 1:
        raise TypeError("these two don't go together")
"""


@pytest.fixture
def place(tmp_path):
    """A folder of modules, and a model beside it."""
    modules, folder = tmp_path / "modules", tmp_path / "model"
    (modules / "transformers/models/auto").mkdir(parents=True)
    (modules / "server.py").write_text(SERVER)
    stub = Path(transformers_stub.__file__).read_text().replace("sys.modules", "{'torch': None} or")
    (modules / "transformers/__init__.py").write_text(stub)
    auto = "CONFIG_MAPPING_NAMES = {'qwen3_5': 1}"
    (modules / "transformers/models/auto/configuration_auto.py").write_text(auto)
    folder.mkdir()
    return tmp_path


@pytest.fixture
def ask(place):
    def run(**question):
        variables = {**os.environ, "PYTHONPATH": str(place / "modules")}
        return inquiry.ask(Question(**question), Path(sys.executable), variables, place)

    return run


def test_the_options_are_told_and_right_arguments_accepted(ask):
    answer = ask(parser="server", arguments=("-tp", "2"))
    assert answer.refused == ""
    assert answer.options[1:3] == (
        Option(("--tensor-parallel-size", "-tp"), kind="int", default="1"),
        Option(("--dtype",), choices=("auto", "half"), default="auto"),
    )
    assert (answer.options[0].nargs, answer.options[3].kind) == ("0", "json")
    assert answer.version == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-tp", "two"), "argument --tensor-parallel-size/-tp: invalid int value: 'two'"),
        (("--names", "a"), "argument --names: not today"),
        (("--dtype", "half", "-tp", "2"), "TypeError: these two don't go together"),
        (("--help",), "prints something and ends"),
    ],
)
def test_what_the_parser_refuses_in_its_own_words(ask, arguments, words):
    answer = ask(parser="server", arguments=arguments)
    assert words in answer.refused
    assert answer.options


@pytest.mark.parametrize("parser", ["", "server"])
@pytest.mark.parametrize(("template", "thinking"), [("{{ enable_thinking }}", True), ("x", False)])
def test_tokenizer_and_template(ask, place, parser, template, thinking):
    settings = {"chat_template": template}
    (place / "model/tokenizer_config.json").write_text(json.dumps(settings))
    answer = ask(folder=str(place / "model"), parser=parser)
    assert (answer.version, answer.template, answer.thinking) == ("5.0", "renders", thinking)
    assert bool(answer.options) == bool(parser)


def test_what_the_tokenizer_wants_from_elsewhere_is_not_had(ask, place):
    (place / "model/tokenizer_config.json").write_text(json.dumps({"wants": "192.0.2.1"}))
    answer = ask(folder=str(place / "model"))
    assert answer.error == "OSError: there is no network here"
    assert "192.0.2.1" in answer.wanted[0]


def test_a_python_without_the_library_says_so(place):
    done = subprocess.run(
        [sys.executable, "-I", "-S", trial.__file__],
        input=json.dumps(asdict(Question(folder="/x"))),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["error"] == MISSING


def test_a_crash_is_an_error_with_its_last_words(ask, place):
    (place / "modules/server.py").write_text("raise ImportError('libcuda.so.1: no such file')")
    with pytest.raises(ServerError) as caught:
        ask(parser="server")
    assert caught.value.findings[-1] == "ImportError: libcuda.so.1: no such file"
    assert "status 1" in caught.value.why


def test_a_python_that_can_t_be_started(place):
    with pytest.raises(ServerError) as caught:
        inquiry.ask(Question(), place / "no-python", {}, place)
    assert "can't be started" in caught.value.why


def test_answers_are_remembered_by_what_was_asked(tmp_path):
    memory = inquiry.Memory(tmp_path / "checked", ("release",))
    assert memory.recall("options") is None
    memory.keep(Answer(version="5"), "options")
    assert memory.recall("options") == Answer(version="5")
    assert memory.recall("option", "s") is None
    assert inquiry.Memory(tmp_path / "checked", ("other",)).recall("options") is None
    (path,) = (tmp_path / "checked").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"5"', b'"6"'))
    assert memory.recall("options") is None


def test_a_model_that_changes_is_another(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    before = inquiry.identity(tmp_path)
    assert inquiry.identity(tmp_path) == before
    (tmp_path / "tokenizer.json").write_text("{ }")
    assert inquiry.identity(tmp_path) != before
