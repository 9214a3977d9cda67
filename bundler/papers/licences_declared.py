"""What a component declares, as identifiers of the texts that would fit it."""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources

from bundler.papers import licences_found
from bundler.papers.bill import Component
from bundler.plan import spdx
from bundler.plan.licences import LONGEST
from manifests.records import from_data


@dataclass(frozen=True)
class _Name:
    names: tuple[str, ...]
    spdx: tuple[str, ...]


@dataclass(frozen=True)
class _Names:
    plain: tuple[str, ...]
    names: tuple[str, ...]
    same: tuple[_Name, ...]
    words: tuple[_Name, ...]


def identifiers(component: Component) -> tuple[str, ...]:
    """Identifiers, or patterns of them ("BSD-*"); nothing where the words name no licence.

    A licence that is declared by its whole text is known as texts are.
    """
    declared = " ".join(component.declared.split())
    if len(declared) > LONGEST and (found := licences_found.licences(component.declared)):
        return found
    try:
        names = spdx.leaves(declared)
    except ValueError:
        names = tuple(declared.split(" and ")) if len(declared) <= LONGEST else ()
    return tuple(dict.fromkeys(one for name in names for one in _fitting(name)))


def is_prose(component: Component) -> bool:
    """Whether what is declared says more than the name of a licence, or its known text.

    What the other words take away or ask for only a person can tell.
    """
    declared = " ".join(component.declared.split())
    if all(map(_is_name, declared.lower().split(" and "))):
        return False
    return len(declared) <= LONGEST or not licences_found.licences(component.declared)


def _is_name(words: str) -> bool:
    found = licences_found.normalised(words).split()
    plain = (any(fnmatchcase(word, one) for one in _names().plain) for word in found)
    return words in _names().names or (bool(found) and all(plain))


def fits(found: str, declared: tuple[str, ...]) -> bool:
    """Whether the text of a licence is of one that is declared."""
    return any(fnmatchcase(spdx.base(found), spdx.base(one)) for one in declared)


def _fitting(name: str) -> tuple[str, ...]:
    same = _matching(name, _names().same)
    return same or ((name,) if spdx.known(name) else _matching(name, _names().words))


def _matching(name: str, known: tuple[_Name, ...]) -> tuple[str, ...]:
    for one in known:
        if any(fnmatchcase(name.lower(), pattern) for pattern in one.names):
            return one.spdx
    return ()


@cache
def _names() -> _Names:
    text = (resources.files("bundler.papers") / "licences_names.toml").read_text("utf-8")
    return from_data(_Names, tomllib.loads(text), "licences_names.toml")
