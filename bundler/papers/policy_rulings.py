"""What the rules of a policy come to for one component. Their order: see bundler.papers.policy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bundler.papers import licences_declared
from bundler.papers.bill import CONDA, PROVIDED, WHEEL, Component
from bundler.papers.licences import Line
from bundler.papers.policy_file import ALLOW, ASK, VERDICTS, Policy
from bundler.plan import spdx
from bundler.plan.licences import UNKNOWN, of_identifier, rank

#: As https://packaging.python.org/specifications/name-normalization/.
_SEPARATORS = re.compile(r"[-_.]+")
#: What older lists of SPDX had for `-or-later`.
_PLUS = re.compile(r"\+(?= with |$)")
_EVERYTHING = "*"


@dataclass(frozen=True)
class Ruling:
    """What one licence, or a name, comes to."""

    verdict: str  # one of VERDICTS
    pattern: str  # that fits, in the list of the verdict's name; empty: none does
    by: str = "name"  # "declared", "found" in the texts, "nothing" declared, or "provided"
    name: str = ""  # of the licence
    place: str = ""  # of the text that it was found in


def of_line(line: Line, policy: Policy) -> Ruling:
    """The ruling on one component. What the host has already, nobody passes on."""
    if line.component.scope == PROVIDED:
        return Ruling(ALLOW, "", "provided")
    return _of_component(line.component, policy) or _of_licences(line, policy)


def _of_component(one: Component, policy: Policy) -> Ruling | None:
    for verdict in reversed(VERDICTS):
        for pattern in policy.of(verdict):
            if "/" in pattern and meant(pattern, one):
                return Ruling(verdict, pattern)
    return None


def meant(pattern: str, one: Component) -> bool:
    """Whether a pattern names a component; names are compared as its index does."""
    kind, _, rest = pattern.partition("/")
    name, _, version = rest.partition("@")
    return (
        fnmatchcase(one.kind, kind)
        and fnmatchcase(_normal(one.name, one.kind), _normal(name, one.kind))
        and ("@" not in rest or fnmatchcase(one.version, version))
    )


def _normal(name: str, kind: str) -> str:
    if kind == WHEEL:
        return _SEPARATORS.sub("-", name).lower()
    return name.lower() if kind == CONDA else name


def _of_licences(line: Line, policy: Policy) -> Ruling:
    """The strictest of what is declared, and of the texts that no declaration covers."""
    rulings = [_of_found(name, line, policy) for name in line.beyond]
    return _strictest([_of_declared(line, policy), *rulings])


def _of_found(name: str, line: Line, policy: Policy) -> Ruling:
    ruling = _of_name(name, "found", policy)
    return replace(ruling, place=line.places[line.found.index(name)])


def _of_declared(line: Line, policy: Policy) -> Ruling:
    one = line.component
    try:
        if all(map(spdx.known, spdx.leaves(one.declared))):
            return spdx.fold(
                one.declared, lambda name: _of_name(name, "declared", policy), _strictest, _mildest
            )
    except ValueError:
        pass
    # Words name a licence less exactly than the text that goes with them, and may say more: a text
    # answers for words of a family that asks no more than the text's own.
    texts = [name for name in line.found if name not in line.beyond]
    rulings = [_of_found(name, line, policy) for name in texts]
    family, by = one.licence.family, "declared" if one.declared else "nothing"
    known = [found for name in texts if (found := of_identifier(name)) != UNKNOWN]
    if not rulings or (one.declared and rank(family) > max(map(rank, known), default=-1)):
        rulings.append(_of_family(family, by, one.licence.text, policy))
    if one.declared and licences_declared.is_prose(one):
        # Whatever its words hint at.
        rulings.append(_of_family(UNKNOWN, by, one.licence.text, policy))
    return _strictest(rulings)


def _of_name(name: str, by: str, policy: Policy) -> Ruling:
    for wanted in (True, False):  # patterns with an exception are more exact
        for verdict in reversed(VERDICTS):
            for pattern in policy.of(verdict):
                if (" with " in pattern.lower()) is wanted and _fits(name, pattern, verdict):
                    return Ruling(verdict, pattern, by, name)
    return _of_family(of_identifier(name), by, name, policy)


def _fits(name: str, pattern: str, verdict: str) -> bool:
    if "/" in pattern:
        return False
    name, pattern = (_PLUS.sub("-or-later", one.lower()) for one in (name, pattern))
    # What forbids a licence without telling its versions forbids it with all of them.
    bare = spdx.undecided(pattern)
    fitting = [fnmatchcase(name, pattern), fnmatchcase(name, bare)]
    if verdict != ALLOW and bare == pattern:
        fitting.append(fnmatchcase(spdx.undecided(name), pattern))
    return any(fitting)


def _of_family(family: str, by: str, name: str, policy: Policy) -> Ruling:
    for verdict in reversed(VERDICTS):
        for pattern in (family, _EVERYTHING):
            if pattern in policy.of(verdict):
                return Ruling(verdict, pattern, by, name)
    return Ruling(ASK, "", by, name)


def _strictest(rulings: Sequence[Ruling]) -> Ruling:
    return max(rulings, key=_weight)


def _mildest(rulings: Sequence[Ruling]) -> Ruling:
    return min(rulings, key=_weight)


def _weight(ruling: Ruling) -> int:
    return VERDICTS.index(ruling.verdict)
