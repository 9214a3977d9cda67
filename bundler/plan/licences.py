"""Which licences need a look before a bundle is passed on. A hint, not legal advice.

What a wheel states: License-Expression (PEP 639), else its classifiers, else the free text of
License. Format: https://packaging.python.org/specifications/core-metadata/.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources

from manifests.records import from_data

UNKNOWN = "unknown"
#: Families that a person should look at.
LOOK = ("strong copyleft", "proprietary", UNKNOWN)
_TOKEN = re.compile(r"[()]|[^\s()]+")
#: Longer texts, in characters, are the licence itself.
_LONGEST = 80


@dataclass(frozen=True)
class Licence:
    """What somebody states about a licence, and the family that it belongs to."""

    text: str  # empty: nothing stated
    family: str

    @property
    def needs_look(self) -> bool:
        """Whether a person should read it."""
        return self.family in LOOK


@dataclass(frozen=True)
class _Family:
    name: str
    spdx: tuple[str, ...]
    texts: tuple[str, ...]
    phrases: tuple[str, ...]


def of_metadata(metadata: str) -> Licence:
    """The licence that a wheel's METADATA states."""
    head = HeaderParser().parsestr(metadata)
    if expression := head.get("License-Expression", "").strip():
        return of_expression(expression)
    stated = [
        value.rpartition("::")[2].strip()
        for value in head.get_all("Classifier", [])
        if value.startswith("License ::") and value.count("::") > 1
    ]
    # "OSI Approved" alone says nothing; several classifiers are several licences at once.
    stated = [text for text in stated if text != "OSI Approved"]
    text = head.get("License", "").strip()
    if stated:
        return Licence(
            " and ".join(stated), _strictest([_matching(item, "texts") for item in stated])
        )
    return of_text(text)


def of_text(text: str) -> Licence:
    """A licence named in free text, or by an SPDX expression as many do there."""
    words = " ".join(text.split())
    if words.upper() in ("", "UNKNOWN", "NONE"):
        return Licence("", UNKNOWN)
    if len(words) > _LONGEST:
        return Licence(_short(words), _matching(words, "phrases"))
    found = of_expression(words)
    return found if found.family != UNKNOWN else Licence(words, _matching(words, "texts"))


def of_expression(expression: str) -> Licence:
    """An SPDX licence expression: AND asks for all of its licences, OR leaves the choice.

    Format: https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/.
    """
    tokens = _TOKEN.findall(expression)
    try:
        family = _either(tokens)
    except IndexError:
        family = UNKNOWN
    return Licence(_short(expression), UNKNOWN if tokens else family)


def _either(tokens: list[str]) -> str:
    families = [_all(tokens)]
    while tokens and tokens[0].upper() == "OR":
        tokens.pop(0)
        families.append(_all(tokens))
    return min(families, key=_rank)


def _all(tokens: list[str]) -> str:
    families = [_one(tokens)]
    while tokens and tokens[0].upper() == "AND":
        tokens.pop(0)
        families.append(_one(tokens))
    return _strictest(families)


def _one(tokens: list[str]) -> str:
    token = tokens.pop(0)
    if token == "(":  # noqa: S105 - a parenthesis
        family = _either(tokens)
        if tokens.pop(0) != ")":
            raise IndexError
        return family
    if tokens and tokens[0].upper() == "WITH":
        tokens.pop(0)
        token = f"{token} WITH {tokens.pop(0)}"
    return _matching(token, "spdx")


def _matching(text: str, kind: str) -> str:
    """The first family of which a pattern of this kind fits."""
    for family in _families():
        patterns: tuple[str, ...] = getattr(family, kind)
        if any(fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns):
            return family.name
    return UNKNOWN


def _strictest(families: Sequence[str]) -> str:
    return max(families, key=_rank)


def _rank(family: str) -> int:
    return [*(known.name for known in _families()), UNKNOWN].index(family)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@cache
def _families() -> tuple[_Family, ...]:
    text = (resources.files("bundler.plan") / "licences.toml").read_text("utf-8")
    return tuple(
        from_data(_Family, item, "licences.toml") for item in tomllib.loads(text)["families"]
    )
