"""The manual's topics: their order, their files, and which of them a person may have meant."""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.manual.markup import Topic, parse

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = (ENGLISH, CHINESE)
#: In the order in which they are read.
NAMES = (
    *("start", "install", "preflight", "settings", "api", "thinking", "models", "switch"),
    *("service", "security", "monitor", "gpu", "doctor", "audit", "papers", "repair", "upgrade"),
    *("uninstall", "support", "instances", "accounts", "containers", "wsl2", "offline"),
    *("exit-codes", "glossary"),
)
#: Topics that are offered for a word that is none.
_OFFERED = 6
_TABLE = re.compile(r"\{\{([a-z-]+)\}\}")


@cache
def words(language: str) -> Mapping[str, str]:
    """The few words around the topics, and the exit codes' meanings."""
    found: dict[str, str] = tomllib.loads(_file(f"{language}.toml").read_text("utf-8"))
    return found


@cache
def topic(name: str, language: str) -> Topic:
    """One topic.

    Raises UsageError with the nearest where there is none of that name.
    """
    if name not in NAMES:
        raise _unknown(name, language)
    text = _TABLE.sub(lambda match: _TABLES[match[1]](language), _text(name, language))
    return parse(name, text)


def all_topics(language: str) -> tuple[Topic, ...]:
    """The whole manual in one language."""
    return tuple(topic(name, language) for name in NAMES)


def _exit_codes(language: str) -> str:
    meanings = words(language)
    return "\n".join(
        f"- `{code.value}`: {meanings.get(f'exit-{code.value}', code.meaning)}" for code in ExitCode
    )


#: What stands for `{{NAME}}` in a topic: tables of the program, so that the two can't differ.
_TABLES: dict[str, Callable[[str], str]] = {"exit-codes": _exit_codes}


def near(word: str, language: str) -> tuple[str, ...]:
    """The topics that a word may mean: similar names first, then those that mention it.

    Where none does, those that mention the word of the manual that is most like it.
    """
    sought = word.casefold()
    similar = difflib.get_close_matches(sought, NAMES, n=_OFFERED)
    texts = {name: _text(name, language).casefold() for name in NAMES}
    parts = sought.split()
    holding = [
        name for name, text in texts.items() if parts and all(part in text for part in parts)
    ]
    if not (similar or holding):
        known = {found for text in texts.values() for found in re.findall(r"\w{4,}", text)}
        like = difflib.get_close_matches(sought, sorted(known), n=1)
        holding = [name for name, text in texts.items() if like and like[0] in text]
    return tuple(dict.fromkeys((*similar, *holding)))[:_OFFERED]


def _text(name: str, language: str) -> str:
    return _file(language, f"{name}.txt").read_text("utf-8")


def _unknown(name: str, language: str) -> UsageError:
    offered = near(name, language)
    mend = f"near: {', '.join(offered)}" if offered else f"choose from: {', '.join(NAMES)}"
    return UsageError(f"{name!r}: no such topic", mend=mend)


def _file(*path: str) -> Traversable:
    return resources.files(__package__).joinpath(*path)
