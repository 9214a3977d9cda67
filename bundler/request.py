"""What a person asks for: flags, else `bundle.toml` in the working folder, else defaults."""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests.errors import UsageError

#: Where conda's own clients find conda-forge unless told otherwise.
CONDA_FORGE = "https://conda.anaconda.org/conda-forge"
SETTINGS_FILE = "bundle.toml"
_VERSION = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_KINDS = {str: "a text in quotes", bool: "true or false", list: "a list of texts in quotes"}
#: A setting takes values of one kind, or of one of several.
Kinds = type | tuple[type, ...]


@dataclass(frozen=True)
class Request:
    """One bundle, as it was asked for. Empty texts mean: choose, and say what was chosen."""

    gpu: str
    model: str
    output: Path
    channel: str
    stack: str = "auto"
    target: Path | None = None  # report of the isolated host
    driver: str = ""
    python: str = ""
    glibc: str = ""
    os_release: Path | None = None
    overlay: Path | None = None  # inventory of a Python environment that the host has
    with_flash_attn: bool = False
    flash_attn_wheel: Path | None = None
    others: tuple[str, ...] = ()  # further models
    lora: tuple[str, ...] = ()  # PLACE[=NAME] of adapters for the first model
    model_only: bool = False
    extends: Path | None = None  # bundle or lock of the release that a bundle of models extends
    name: str = ""
    thinking: bool = True
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    endpoint: str | None = None
    include: tuple[str, ...] = ()  # patterns of the model's files
    exclude: tuple[str, ...] = ()
    allow_pickle: bool = False
    allow_remote_code: bool = False
    lock: Path | None = None
    base: Path | None = None  # what the isolated host has, of which a delta is made
    caches: tuple[Path, ...] = ()  # files of compile caches that a rehearsal has kept
    licence_policy: Path | None = None
    accept_licences: bool = False  # what the policy wants to be asked about
    vulns_database: Path | None = None
    vulns_ignore: Path | None = None
    fail_on: str | None = None  # level from which on a known vulnerability stops
    offline: bool = False
    force: bool = False


def check_version(option: str, text: str, example: str) -> None:
    """Refuse what is no MAJOR.MINOR.

    Raises UsageError.
    """
    if text and not _VERSION.fullmatch(text):
        raise UsageError(f"{option} {text}: not a version", mend=f"for example {option} {example}")


def file_settings(path: Path, known: Mapping[str, Kinds]) -> dict[str, Any]:
    """The settings in a file; keys are the long flags with underscores.

    Raises UsageError for a file that is not TOML, an unknown key (naming the nearest) or a value
    of the wrong type.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:  # no UTF-8, no TOML, or without end
        raise UsageError(f"{path}: can't be read: {error}", mend="correct that file") from None
    for key, value in data.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise UsageError(f"{path}: unknown key {key!r}", mend=hint)
        if not isinstance(value, known[key]):
            raise _wrong_kind(path, key, value, known[key])
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise _wrong_kind(path, key, value, known[key])
    return data


def _wrong_kind(path: Path, key: str, value: object, kind: Kinds) -> UsageError:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wanted = " or ".join(_KINDS[one] for one in kinds)
    return UsageError(f"{path}: {key} is {value!r}", mend=f"give {key} {wanted}")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where everything that was fetched or built is kept (XDG base directory specification)."""
    base = environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "vllm-bundle"
    return Path(environ.get("HOME") or "/tmp") / ".cache/vllm-bundle"  # noqa: S108 - no home at all
