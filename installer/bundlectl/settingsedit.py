"""A key of etc/serve.toml as a person types it, put into the file's text."""

import shlex
import tomllib
from dataclasses import Field
from typing import Any

from bundlectl import config, tomledit
from manifests.errors import UsageError

_ENVIRONMENT = "environment"
_SWITCH = {"on": True, "off": False}


def edited(text: str, where: str, name: str, wanted: str | None) -> str:
    """The text with a key set, or taken out where nothing is wanted; `where` names the file.

    `name` is KEY or environment.NAME. The limits of values are left to `config.parse`. Raises
    UsageError.
    """
    if wanted is not None and not _is_text(wanted):
        raise UsageError(
            f"{name}: {wanted!r:.80} is no text in UTF-8, as the file is",
            mend="write it in UTF-8: a terminal of another encoding sends other bytes",
        )
    path = _path(where, name)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError):
        config.parse(text, where)  # says it better
        raise
    if wanted is not None:
        key = config.key_named(path[0], where)
        value: Any = wanted if len(path) > 1 else _value(key, wanted)
        about = key.metadata["about"] if path[0] not in data else ()
        return tomledit.changed(text, path, value, about)
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return text
        data = data[part]
    return tomledit.without(text, path)


def _is_text(word: str) -> bool:
    """Whether a word of the command line was text; other bytes come in as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(where: str, name: str) -> tuple[str, ...]:
    """A key's path: KEY, or environment.NAME."""
    first, point, rest = name.partition(".")
    key = config.key_named(first, where)
    if (key.name == _ENVIRONMENT) != bool(point and rest):
        why = "each variable is set by itself" if key.name == _ENVIRONMENT else "it has no parts"
        raise UsageError(
            f"{name!r} can't be set", why=why, mend="for example: environment.OMP_NUM_THREADS 8"
        )
    return (first, rest) if rest else (first,)


def _value(key: Field[Any], text: str) -> Any:
    """A value as it was typed: a text needs no quotes, a list is TOML or JSON."""
    kind = type(config.default_of(key))
    if kind is str and text[:1] not in ('"', "'"):
        return text
    if kind is bool and text in _SWITCH:
        return _SWITCH[text]
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        found = {}
    value = found.get("value")
    items = value if isinstance(value, list) else [value]
    if len(found) == 1 and all(isinstance(item, str | int | float) for item in items):
        return value
    raise UsageError(
        f"{key.name}: {text!r:.80} is no value of its kind",
        mend=f"for example: bundlectl config set {key.name} {shlex.quote(_example(key))}",
    )


def _example(key: Field[Any]) -> str:
    default = config.default_of(key)
    return '["--seed", "0"]' if isinstance(default, tuple) else as_toml(default)


def as_toml(value: Any) -> str:
    """A value on one line, as it may stand in the file."""
    if isinstance(value, dict):
        pairs = (f"{tomledit.key_text(k)} = {tomledit.rendered(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    return tomledit.rendered(value)
