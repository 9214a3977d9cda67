"""Runs under the server's Python: try its own parser on arguments, its transformers on a tokenizer.

    python -s -P trial.py < question        (a `Question` as JSON)

Prints one line of JSON, an `Answer`. As a program it stands alone: nothing of this project is there
where it runs. As a module it says what the line means.
"""

import contextlib
import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

#: What a program does that wants something from elsewhere (docs.python.org, audit events table).
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
_CHAT = [{"role": "user", "content": "Hi"}]
#: Templates of models that take pictures may want a list of parts.
_PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
_LONGEST = 2000  # characters of an error
#: The error of a Python without that library.
MISSING = "transformers is not installed"


@dataclass(frozen=True)
class Question:
    """What is to be tried. Empty texts: nothing of that."""

    folder: str = ""  # a model's files; weights need not be among them
    remote_code: bool = False  # run the model's own code, as the server would
    parser: str = ""  # module of the server with make_arg_parser and FlexibleArgumentParser
    arguments: tuple[str, ...] = ()  # for that parser


@dataclass(frozen=True)
class Option:
    """An option of the server's parser, as argparse keeps it."""

    names: tuple[str, ...]  # "--tensor-parallel-size", "-tp"; none for a value without a name
    nargs: str = ""  # "" is one value; "0", "?", "*", "+", or a number
    kind: str = ""  # name of the function that reads a value; empty: the text as it is
    choices: tuple[str, ...] = ()
    default: str = ""


@dataclass(frozen=True)
class Answer:
    """What came out. Empty texts: it did not come that far, or was not asked."""

    version: str = ""  # of transformers; empty where it is not there or can't be imported
    model_types: tuple[str, ...] = ()  # that this transformers knows
    tokenizer: str = ""  # its class
    largest: int = 0  # of the tokens' numbers
    template: str = ""  # "renders", "none", or the error
    thinking: bool = False  # enable_thinking changes what is rendered
    error: str = ""  # of transformers or the tokenizer
    wanted: tuple[str, ...] = ()  # what it tried to reach
    options: tuple[Option, ...] = ()  # of the server's parser
    refused: str = ""  # what that parser said of the arguments


def main(text: str) -> Answer:
    """Answer a question."""
    question = Question(**json.loads(text))
    wanted: list[str] = []

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            wanted.append(f"{arguments[-1] if event == 'socket.connect' else arguments[0]}")
            raise OSError("there is no network here")

    sys.addaudithook(refuse)
    found: dict[str, Any] = {}
    if question.parser:
        found |= _parsed(question)
    if question.folder:
        if not question.parser:
            # Tokenizers do not need torch, which takes seconds to load and looks for a GPU.
            sys.modules["torch"] = None  # type: ignore[assignment]  # how an import is forbidden
        found |= _tokenized(question)
    return Answer(**found, wanted=tuple(wanted))


class _Refused(Exception):
    """The parser's own words."""


def _parsed(question: Question) -> dict[str, Any]:
    module = import_module(question.parser)
    parser = module.make_arg_parser(module.FlexibleArgumentParser())

    def refuse(message: str) -> NoReturn:
        raise _Refused(message)

    parser.error = refuse
    found: dict[str, Any] = {"options": tuple(_option(action) for action in parser._actions)}
    try:
        arguments = parser.parse_args(list(question.arguments))
        # vLLM's own look at what doesn't go together, before it loads anything.
        getattr(module, "validate_parsed_serve_args", lambda _: None)(arguments)
    except _Refused as refused:
        found["refused"] = _clean(str(refused))
    except SystemExit:
        found["refused"] = "it prints something and ends (such as --help and --version)"
    except Exception as error:
        found["refused"] = _told(error)
    return found


def _option(action: Any) -> Option:
    kind = action.type
    return Option(
        names=tuple(action.option_strings),
        nargs="" if action.nargs is None else str(action.nargs),
        kind="" if kind in (None, str) else getattr(kind, "__qualname__", repr(kind)),
        choices=tuple(map(str, action.choices or ())),
        default="" if action.default is None else _clean(str(action.default)),
    )


def _tokenized(question: Question) -> dict[str, Any]:
    if find_spec("transformers") is None:
        return {"error": MISSING}
    found: dict[str, Any] = {}
    try:
        transformers = import_module("transformers")
        found["version"] = transformers.__version__
        found["model_types"] = _model_types()
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            question.folder, trust_remote_code=question.remote_code
        )
        _try_tokenizer(tokenizer, found)
        _try_template(tokenizer, found)
    except Exception as error:
        found["error"] = _told(error)
    return found


def _model_types() -> tuple[str, ...]:
    module = import_module("transformers.models.auto.configuration_auto")
    return tuple(sorted(module.CONFIG_MAPPING_NAMES))


def _try_tokenizer(tokenizer: Any, found: dict[str, Any]) -> None:
    if not tokenizer("Hello 1+1")["input_ids"]:
        raise ValueError("the tokenizer makes no tokens of a text")
    found["tokenizer"] = type(tokenizer).__name__
    found["largest"] = max(tokenizer.get_vocab().values())


def _try_template(tokenizer: Any, found: dict[str, Any]) -> None:
    if not tokenizer.chat_template:
        found["template"] = "none"
        return
    try:
        rendered = _rendered(tokenizer)
        found["template"] = "renders"
        found["thinking"] = len(rendered) > 1
    except Exception as error:
        found["template"] = _told(error)


def _rendered(tokenizer: Any) -> set[str]:
    """What one question becomes with thinking on and off."""

    def render(chat: list[dict[str, Any]], *, thinking: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
            )
        )

    try:
        return {render(_CHAT, thinking=thinking) for thinking in (True, False)}
    except Exception:
        return {render(_PARTS, thinking=thinking) for thinking in (True, False)}


def _told(error: Exception) -> str:
    return _clean(f"{type(error).__name__}: {error}")


def _clean(text: str) -> str:
    """Without what has no UTF-8, such as the odd bytes of a file's name."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def _program() -> None:
    # Libraries print what they like, and may go on after the end: only the answer gets through.
    out = os.dup(1)
    os.dup2(2, 1)
    line = json.dumps(dataclasses.asdict(main(sys.stdin.read())))
    with contextlib.suppress(BrokenPipeError), os.fdopen(out, "w") as answers:
        answers.write(line + "\n")


if __name__ == "__main__":
    _program()
