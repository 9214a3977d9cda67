"""What a model or an adapter says of itself: its card, its configuration, its licence's text."""

import json
import re
from collections.abc import Iterator, Mapping

from bundler.papers import gathering_said
from bundler.papers.gathering_said import Said
from manifests.adapter import CONFIG
from manifests.lock import Adapter, Model, ModelFile

_CARD = "README.md"
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---", re.DOTALL)
#: `base_model: ORG/NAME`, or a list of them below it, one a line or in brackets
#: (https://huggingface.co/docs/hub/model-cards#specifying-a-base-model).
_BASE = re.compile(r"^base_model:[ \t]*(?P<one>[^\n]*)\n(?P<list>(?:[ \t]*-[ \t][^\n]*\n)*)", re.M)
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def papers(part: Model | Adapter) -> Iterator[ModelFile]:
    """The files of a part that say something, in the lock's order."""
    for file in part.files:
        told = file.path in (_CARD, CONFIG) or gathering_said.is_text(file.path)
        if told and file.size <= gathering_said.LONGEST:
            yield file


def said(part: Model | Adapter, files: Mapping[str, bytes]) -> Said:
    """What a part says; `files` are the bytes of its papers by path."""
    base = base_of(files.get(_CARD, b"").decode("utf-8", "replace"))
    if not base and isinstance(part, Adapter):
        base = _trained_on(files.get(CONFIG, b""))
    return gathering_said.of_model(part.licence, files, base)


def base_of(card: str) -> str:
    """What a model card names as base model, several with commas; empty where it names none."""
    front = _FRONT_MATTER.match(card)
    found = _BASE.search(f"{front[1]}\n".replace("\r\n", "\n")) if front else None
    if found is None:
        return ""
    listed = [line.strip()[1:] for line in found["list"].splitlines()]
    values = [value.strip(" \t'\"") for value in (*found["one"].strip("[] \t").split(","), *listed)]
    return ", ".join(value for value in values if _NAME.fullmatch(value))


def _trained_on(config: bytes) -> str:
    """The base in an adapter's configuration; of a path on its maker's machine only the end."""
    try:
        value = json.loads(config).get("base_model_name_or_path")
    except (ValueError, RecursionError, AttributeError):
        return ""
    if not isinstance(value, str):
        return ""
    last = value.rstrip("/").rpartition("/")[2]
    return next((text for text in (value, last) if _NAME.fullmatch(text)), "")
