"""From what a person types to a source: a folder, `ORG/NAME[@REVISION]`, a family's short name."""

import os
import re
from pathlib import Path

from bundler.models.catalogue import Advice
from bundler.models.folder import folder_source
from bundler.models.hub import HubSource
from bundler.models.source import ModelSource
from manifests.checkpoint import Rules
from manifests.errors import UsageError
from wheelhouse.store import Store

#: First letters of a short name → the organisation that publishes the family on the Hub.
FAMILIES = {"qwen": "Qwen"}
#: https://huggingface.co/docs/hub/repositories: letters, digits, "-", "_", ".", at most 96 of them.
_REPOSITORY = re.compile(
    r"(?:hf:(?://)?)?(?:(?P<owner>[\w.-]{1,96})/)?(?P<name>[\w.-]{1,96})(?:@(?P<revision>[\w./-]+))?",
    re.ASCII,
)
_PATH_LIKE = ("/", "./", "../", "~")


def expanded(text: str) -> Path:
    """A path as a person writes it; `~` stays where there is no such user."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own raises RuntimeError there


def resolve(
    model: str,
    store: Store,
    rules: Rules | None = None,
    *,
    endpoint: str | None = None,
    offline: bool = False,
    advice: Advice = tuple,
) -> ModelSource:
    """The source that has the model; nothing is read or asked yet.

    A folder that exists wins. `endpoint` is the Hub's address, HF_ENDPOINT's by default; `advice`
    is told where the Hub has no such model. Raises UsageError for a folder that does not exist and
    for what is no name.
    """
    rules = rules or Rules()
    path = expanded(model)
    if model and path.is_dir():
        return folder_source(path, rules)
    if path.is_file():
        raise UsageError(f"{model}: a file, not a folder", mend="name the folder that holds it")
    repository, revision = hub_reference(model)
    return HubSource(
        repository,
        store,
        rules,
        revision=revision,
        endpoint=endpoint,
        offline=offline,
        advice=advice,
    )


def hub_reference(text: str) -> tuple[str, str]:
    """The repository and the revision that `[hf:]ORG/NAME[@REVISION]` or a short name means.

    Raises UsageError for what is no name.
    """
    found = _REPOSITORY.fullmatch(text)
    if text.startswith(_PATH_LIKE) or not found:
        raise UsageError(
            f"{text!r}: no such folder, and no name of a model",
            mend="name a folder that exists, or ORG/NAME on the Hub",
        )
    owner = found["owner"] or next(
        (owner for start, owner in FAMILIES.items() if found["name"].lower().startswith(start)), ""
    )
    repository = f"{owner}/{found['name']}" if owner else found["name"]
    return repository, found["revision"] or "main"
