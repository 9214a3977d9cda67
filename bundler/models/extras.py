"""Get what a model needs beside its own repository: vocabularies, code of other repositories."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bundler.models.catalogue import Found
from manifests import extras
from manifests.checkpoint import CONFIG
from manifests.lock import ModelFile
from manifests.risks import is_code

_PLACED = re.compile(
    r"hub/models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})/(?P<path>.+)"
)
_POINTER = re.compile(r"(?P<folder>hub/models--[^/]+)/refs/main")


@dataclass(frozen=True)
class Origin:
    """Where a file of another repository comes from."""

    repository: str
    commit: str
    path: str


def vocabularies(documents: Mapping[str, Any]) -> list[ModelFile]:
    """The vocabularies that a model's server fetches, as files of the model."""
    return [
        ModelFile(one.path, one.size, one.sha256) for one in extras.needed(documents.get(CONFIG))
    ]


def vocabulary_url(path: str) -> str:
    """Where a vocabulary is published, or TIKTOKEN_ENCODINGS_BASE's copy; empty for other files."""
    for one in extras.vocabularies():
        if one.path == path:
            mirror = os.environ.get("TIKTOKEN_ENCODINGS_BASE", "")
            return f"{mirror.rstrip('/')}/{one.file}" if "://" in mirror else one.url
    return ""


def code_of(repository: str, found: Found) -> list[ModelFile]:
    """All code of a repository, laid out as in a Hub's cache.

    `repository` is how the model calls it, under which name servers look for it.
    """
    folder = extras.hub_folder(repository)
    snapshot = f"{folder}/snapshots/{found.commit}"
    pointer = found.commit.encode()
    return [
        # It holds the commit that the other paths name, and so needs nobody's word.
        ModelFile(f"{folder}/refs/main", len(pointer), hashlib.sha256(pointer).hexdigest()),
        *(
            replace(file, path=f"{snapshot}/{name}")
            for name, file in found.files.items()
            if is_code(name)
        ),
    ]


def origin(path: str) -> Origin | None:
    """Where a file below `hub/` comes from; None for the model's own."""
    placed = _PLACED.fullmatch(path)
    if placed is None:
        return None
    return Origin(f"{placed['owner']}/{placed['name']}", placed["commit"], placed["path"])


def pointer(path: str, names: list[str]) -> bytes:
    """The content of a `refs/main` below `hub/`, by the other files' names; empty for others."""
    found = _POINTER.fullmatch(path)
    for name in names if found else ():
        placed = _PLACED.fullmatch(name)
        if placed and found and name.startswith(f"{found['folder']}/"):
            return placed["commit"].encode()
    return b""
