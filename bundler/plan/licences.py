"""Which licences need a look before a bundle is passed on. A hint, not legal advice.

What a wheel states: License-Expression (PEP 639), else its classifiers, else the free text of
License. Format: https://packaging.python.org/specifications/core-metadata/.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources

from bundler.plan import spdx
from manifests.records import from_data

UNKNOWN = "unknown"
#: Families that a person should look at.
LOOK = ("strong copyleft", "proprietary", UNKNOWN)
#: Longer texts, in characters, are the licence itself.
LONGEST = 80


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
    beside: tuple[str, ...] = ()


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
        return Licence(" and ".join(stated), strictest([_of_name(item) for item in stated]))
    return of_text(text)


def of_text(text: str) -> Licence:
    """A licence named in free text, or by an SPDX expression as many do there."""
    words = " ".join(text.split())
    if words.upper() in ("", "UNKNOWN", "NONE"):
        return Licence("", UNKNOWN)
    if len(words) > LONGEST:
        return Licence(_short(words), _of_whole(words))
    try:
        family = spdx.fold(words, _of_word, strictest, _mildest)
    except ValueError:
        family = _of_name(words)
    return Licence(words, family)


def of_expression(expression: str) -> Licence:
    """An SPDX licence expression; without one the family is not known."""
    try:
        family = spdx.fold(expression, of_identifier, strictest, _mildest)
    except ValueError:
        family = UNKNOWN
    return Licence(_short(expression), family)


def of_identifier(name: str) -> str:
    """The family of one licence of SPDX's list, or of somebody's own with its prefix."""
    # A licence with an exception can be milder than its own pattern says: the first counts.
    return next(iter(_fitting(name, "spdx")), UNKNOWN) if spdx.known(name) else UNKNOWN


def _of_word(name: str) -> str:
    """As `of_identifier`, and for what people write in its place ("BSD")."""
    family = of_identifier(name)
    if family != UNKNOWN:
        return family
    family = _of_name(name)
    # What goes with a licence and is on no list may take away what the licence grants.
    return UNKNOWN if " WITH " in name and family not in LOOK else family


def strictest(families: Sequence[str]) -> str:
    """The family that asks most."""
    return max(families, key=rank)


def _mildest(families: Sequence[str]) -> str:
    return min(families, key=rank)


def _of_name(text: str) -> str:
    """The strictest family that fits: words that restrict come beside words that grant."""
    return strictest(_fitting(text, "texts") or [UNKNOWN])


def _of_whole(text: str) -> str:
    """The first family that fits, for licences name stricter ones; or what is said beside it."""
    return strictest(_fitting(text, "beside") or [next(iter(_fitting(text, "phrases")), UNKNOWN)])


def _fitting(text: str, kind: str) -> list[str]:
    """The families of which a pattern of this kind fits, from what asks least."""

    def fits(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns)

    return [family.name for family in _families() if fits(getattr(family, kind))]


def family_names() -> tuple[str, ...]:
    """The families, from what asks least to what asks most, and the unknown one."""
    return (*(known.name for known in _families()), UNKNOWN)


def rank(family: str) -> int:
    """How much a family asks, for comparing two."""
    return family_names().index(family)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@cache
def _families() -> tuple[_Family, ...]:
    text = (resources.files("bundler.plan") / "licences.toml").read_text("utf-8")
    return tuple(
        from_data(_Family, item, "licences.toml") for item in tomllib.loads(text)["families"]
    )
