"""What a model brings beside its own repository, so that its server fetches nothing at run time.

Vocabularies lie in the model's `vocabularies/`, code of other repositories in its `hub/`, laid out
as a Hub's cache: that is where transformers looks for it when it is offline.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from manifests.findings import Finding
from manifests.records import from_data
from manifests.risks import references

VOCABULARIES, HUB = "vocabularies", "hub"
#: Variables by which servers find these folders: openai-harmony's, and huggingface_hub's.
_VARIABLES = {"TIKTOKEN_ENCODINGS_BASE": VOCABULARIES, "HF_HUB_CACHE": HUB}


@dataclass(frozen=True)
class Vocabulary:
    """A file that the servers of some models fetch."""

    model_type: str  # of config.json
    file: str
    size: int  # bytes
    sha256: str
    url: str

    @property
    def path(self) -> str:
        """Its place in a model's folder."""
        return f"{VOCABULARIES}/{self.file}"


@cache
def vocabularies() -> tuple[Vocabulary, ...]:
    """All that are known."""
    text = (resources.files("manifests") / "extras.toml").read_text("utf-8")
    return tuple(
        from_data(Vocabulary, item, "extras.toml") for item in tomllib.loads(text)["vocabularies"]
    )


def needed(config: Any) -> tuple[Vocabulary, ...]:
    """The vocabularies that a model's server fetches."""
    kind = config.get("model_type") if isinstance(config, dict) else None
    return tuple(found for found in vocabularies() if found.model_type == kind)


def second_repositories(documents: Mapping[str, Any]) -> tuple[str, ...]:
    """Other repositories whose code a model's JSON files name."""
    found = [repository for _, repository, _ in references(documents) if repository]
    return tuple(dict.fromkeys(found))


def hub_folder(repository: str) -> str:
    """Where the code of another repository lies in a model's folder."""
    return f"{HUB}/models--{repository.replace('/', '--')}"


def variables(model: Path) -> dict[str, str]:
    """What a server's environment has to say, so that it finds what a model's folder brings."""
    return {
        name: str(model / folder)
        for name, folder in _VARIABLES.items()
        if (model / folder).is_dir()
    }


def check_vocabularies(
    names: Collection[str], config: Any, digest_of: Mapping[str, str]
) -> Iterator[Finding]:
    """Find vocabularies that are missing or, where its digest is known, another file."""
    for one in needed(config):
        mend = f"download {one.url} and put it into the model's folder as {one.path}"
        if one.path not in names:
            yield Finding(
                f"{one.path}: missing, and the server of a {one.model_type} model fetches it", mend
            )
        elif digest_of.get(one.path, one.sha256) != one.sha256:
            yield Finding(
                f"{one.path}: has sha256 {digest_of[one.path]}, published is {one.sha256}",
                mend,
                damage=True,
            )


def check_code(names: Collection[str], documents: Mapping[str, Any]) -> Iterator[Finding]:
    """Find code that a model names and that is not there: nobody can fetch it on the target."""
    for name, repository, file in dict.fromkeys(references(documents)):
        if not repository:
            if file not in names:
                yield Finding(
                    f"{file}: missing, and `auto_map` in {name} loads it",
                    "copy it from the model's source, or take it in with --include",
                )
            continue
        folder = hub_folder(repository)
        there = [path for path in names if path.startswith(f"{folder}/snapshots/")]
        if f"{folder}/refs/main" not in names or not any(p.endswith(f"/{file}") for p in there):
            yield Finding(
                f"{name}: `auto_map` loads {file} of another repository, {repository} "
                "(second-repository)",
                "name the model by its Hub name, or copy its folder of a Hub cache "
                f"into the model's as {folder}",
            )
