"""What a model may hold that runs code where it is loaded; taken only where a flag allows it.

Pickles: https://huggingface.co/docs/hub/security-pickle. Code: `auto_map` in a model's JSON files
names classes as `FILE.CLASS`, or as `ORG/NAME--FILE.CLASS` where another repository holds them
(transformers/dynamic_module_utils.py: get_class_from_dynamic_module).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

#: Kinds of risks. CODE is a file that would run, AUTO_MAP the place that names its classes.
PICKLE, CODE, AUTO_MAP = "pickle", "remote-code", "auto-map"
_PICKLES = frozenset({".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"})
_CODE = frozenset({".py", ".so"})
_TEXTS = {
    PICKLE: "a pickle, which can run code when it is loaded",
    CODE: "code that comes with the model",
    AUTO_MAP: "`auto_map` loads code",
}


@dataclass(frozen=True)
class Risk:
    """One file of a model that can run code where it is loaded."""

    kind: str  # PICKLE, CODE or AUTO_MAP
    path: str

    def text(self) -> str:
        """The risk as a person reads it."""
        return f"{self.path}: {_TEXTS.get(self.kind, self.kind)} ({self.kind})"


def risks_of(names: Collection[str], documents: Mapping[str, Any]) -> tuple[Risk, ...]:
    """Every risk among a model's files: by their names, and by what its JSON files say."""
    listed = sorted(names)
    return (
        *(Risk(PICKLE, name) for name in listed if is_pickle(name)),
        *(Risk(CODE, name) for name in listed if is_code(name)),
        *(Risk(AUTO_MAP, name) for name in sorted(documents) if _auto_map(documents[name])),
    )


def is_pickle(name: str) -> bool:
    """Whether a file's format can run code when it is loaded."""
    return PurePosixPath(name).suffix.lower() in _PICKLES


def is_code(name: str) -> bool:
    """Whether a file is code."""
    return PurePosixPath(name).suffix.lower() in _CODE


def references(documents: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Classes that a model loads from code: the JSON file, the repository, the code's file.

    The repository is empty where it is the model's own.
    """
    for name in sorted(documents):
        for reference in _texts(_auto_map(documents[name])):
            repository, separator, target = reference.rpartition("--")
            yield name, repository if separator else "", f"{target.rpartition('.')[0]}.py"


def _auto_map(document: Any) -> Any:
    return document.get("auto_map") if isinstance(document, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """An auto_map's values: texts, and for tokenizers pairs of a text and a text or null."""
    for item in value.values() if isinstance(value, dict) else [value]:
        for text in item if isinstance(item, list) else [item]:
            if isinstance(text, str):
                yield text
