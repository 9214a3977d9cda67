"""Runs under the server's Python, with its transformers: load a tokenizer, render its template.

    python -I -B script.py FOLDER

FOLDER holds a model's files without weights and code. Prints one line of JSON; see `Answer` in
bundler.agreement.probe. It stands alone: nothing of this project is there where it runs.
"""

import json
import sys
from importlib import import_module
from typing import Any

#: What a program does that wants something from elsewhere (docs.python.org, audit events table).
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
_CHAT = [{"role": "user", "content": "Hi"}]
#: Templates of models that take pictures may want a list of parts.
_PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]


def main(folder: str) -> None:
    """Answer for one folder."""
    wanted: list[str] = []

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            wanted.append(f"{arguments[-1] if event == 'socket.connect' else arguments[0]}")
            raise OSError("there is no network here")

    sys.addaudithook(refuse)
    # Tokenizers do not need torch, which takes seconds to load and looks for a GPU.
    sys.modules["torch"] = None  # type: ignore[assignment]  # how an import is forbidden
    answer: dict[str, Any] = {}
    try:
        transformers = import_module("transformers")
        answer["version"] = transformers.__version__
        answer["model_types"] = _model_types()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        _try_tokenizer(tokenizer, answer)
        _try_template(tokenizer, answer)
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"[:2000]
    answer["wanted"] = wanted
    json.dump(answer, sys.stdout)


def _model_types() -> list[str]:
    module = import_module("transformers.models.auto.configuration_auto")
    return sorted(module.CONFIG_MAPPING_NAMES)


def _try_tokenizer(tokenizer: Any, answer: dict[str, Any]) -> None:
    if not tokenizer("Hello 1+1")["input_ids"]:
        raise ValueError("the tokenizer makes no tokens of a text")
    answer["tokenizer"] = type(tokenizer).__name__
    answer["largest"] = max(tokenizer.get_vocab().values())


def _try_template(tokenizer: Any, answer: dict[str, Any]) -> None:
    if not tokenizer.chat_template:
        answer["template"] = "none"
        return
    try:
        rendered = _rendered(tokenizer)
        answer["template"] = "renders"
        answer["thinking"] = len(rendered) > 1
    except Exception as error:
        answer["template"] = f"{type(error).__name__}: {error}"[:2000]


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


if __name__ == "__main__":
    main(sys.argv[1])
