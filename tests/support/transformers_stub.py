"""Stands in for transformers in a packed environment: the few names that the probe calls.

Its tokenizer does what the model's folder says, so that every answer can be had on demand. The
real library is asked in the end-to-end tests.
"""

import json
import socket
import sys
from pathlib import Path

__version__ = "5.0"


class Tokenizer:
    """A tokenizer of words, with the template that is in the folder."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        if host := settings.get("wants"):
            socket.create_connection((host, 443), timeout=5)
        if "fails" in settings:
            raise ValueError(settings["fails"])
        if any(path.suffix in (".py", ".safetensors") for path in folder.iterdir()):
            raise AssertionError("code and weights have no business here")
        self.chat_template = settings.get("chat_template")
        self.words = settings.get("words", 2)

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [0] * len(text.split()) if self.words else []}

    def get_vocab(self) -> dict[str, int]:
        return {f"w{number}": number for number in range(self.words)}

    def apply_chat_template(self, chat, *, tokenize, add_generation_prompt, enable_thinking):  # type: ignore[no-untyped-def]  # as called
        if "raise" in self.chat_template:
            raise ValueError("the template says no")
        if "parts" in self.chat_template and isinstance(chat[0]["content"], str):
            raise TypeError("string indices must be integers")
        return f"{chat}{enable_thinking if 'enable_thinking' in self.chat_template else ''}"


class AutoTokenizer:
    @staticmethod
    def from_pretrained(folder: str, *, trust_remote_code: bool) -> Tokenizer:
        assert not trust_remote_code
        assert sys.modules["torch"] is None
        print("a library that talks")
        return Tokenizer(Path(folder))
