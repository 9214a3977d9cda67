"""Which licences a text is, or holds: by phrases that no other text has, not by likeness.

A text alone does not say whether later versions of a licence may be taken, so what is found has no
`-only` and no `-or-later`. Nothing is guessed: a text without such a phrase gives nothing.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bundler.plan import spdx
from manifests.records import from_data

#: Words within which the phrases of `then` follow the start: the longest texts have some 6000.
_REACH = 8000
_WORDS = re.compile(r"[^\W_]+")
_TAG = re.compile(r"SPDX-License-Identifier:[ \t]*([^\n*]{1,200})")
#: What comes with a licence and changes it → the licence that it changes.
_EXCEPTIONS = {"GCC-exception-3.1": "GPL-3.0", "LLVM-exception": "Apache-2.0"}
#: Texts that are several licences in a row, and have one name together.
_STACKS = {"Python-2.0": {"0BSD", "CNRI-Python", "HPND", "PSF-2.0"}}


@dataclass(frozen=True)
class _Rule:
    """Holds from each `start` to the next one, within `reach` words."""

    spdx: str
    start: str
    then: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    reach: int = _REACH


def licences(content: str) -> tuple[str, ...]:
    """Identifiers of the licences in a text, sorted; exceptions apart from their licences."""
    words = normalised(content)
    found = {rule.spdx for rule in _rules() if _holds(rule, words)}
    for tag in _TAG.findall(content):
        try:
            found |= {name for name in spdx.leaves(tag.strip()) if spdx.known(name)}
        except ValueError:
            continue
    for whole, parts in _STACKS.items():
        found -= parts if whole in found else set()
    return tuple(sorted(found))


def joined(found: Iterable[str]) -> tuple[str, ...]:
    """What several texts of one component are together: exceptions with what they change.

    GCC's libraries have the GPL and their exception in two files, and mean neither alone.
    """
    names = set(found)
    for exception, licence in _EXCEPTIONS.items():
        if exception in names:
            names -= {exception, licence}
            names.add(f"{licence} WITH {exception}")
    return tuple(sorted(names))


def normalised(content: str) -> str:
    """The words of a text in small letters between single spaces, and a space at each end.

    What differs between copies of one licence goes: quotes, dashes, line breaks, comment signs.
    """
    return f" {' '.join(_WORDS.findall(unicodedata.normalize('NFKC', content).lower()))} "


def _holds(rule: _Rule, words: str) -> bool:
    return any(
        all(phrase in part for phrase in rule.then)
        and not any(phrase in part for phrase in rule.without)
        for part in _parts(rule, words)
    )


def _parts(rule: _Rule, words: str) -> Iterator[str]:
    place = words.find(rule.start)
    while place >= 0:
        following = words.find(rule.start, place + len(rule.start))
        part = words[place : following if following >= 0 else len(words)]
        yield " ".join(part.split(" ", rule.reach)[: rule.reach]) + " "
        place = following


@cache
def _rules() -> tuple[_Rule, ...]:
    text = (resources.files("bundler.papers") / "licences_found.toml").read_text("utf-8")
    rules = (from_data(_Rule, item, "licences_found.toml") for item in tomllib.loads(text)["rules"])
    return tuple(
        _Rule(
            rule.spdx,
            normalised(rule.start),
            tuple(map(normalised, rule.then)),
            tuple(map(normalised, rule.without)),
            rule.reach,
        )
        for rule in rules
    )
