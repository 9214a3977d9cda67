"""What the rules of a policy come to for one component. Their order: see bundler.papers.policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bundler.papers.bill import PROVIDED, Component
from bundler.papers.licences import Line
from bundler.papers.policy_file import ALLOW, ASK, VERDICTS, Policy
from bundler.plan import spdx
from bundler.plan.licences import UNKNOWN, of_identifier


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
    """Whether a pattern names a component."""
    name = f"{one.kind}/{one.name}"
    return fnmatchcase(f"{name}@{one.version}" if "@" in pattern else name, pattern)


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
    # Words name a licence less exactly than the text that goes with them.
    rulings = [_of_found(name, line, policy) for name in line.found if name not in line.beyond]
    if not rulings or (one.declared and one.licence.family == UNKNOWN):
        by = "declared" if one.declared else "nothing"
        rulings.append(_of_family(one.licence.family, by, one.licence.text, policy))
    return _strictest(rulings)


def _of_name(name: str, by: str, policy: Policy) -> Ruling:
    for wanted in (True, False):  # patterns with an exception are more exact
        for verdict in reversed(VERDICTS):
            for pattern in policy.of(verdict):
                if (" with " in pattern.lower()) is wanted and _fits(name, pattern):
                    return Ruling(verdict, pattern, by, name)
    return _of_family(of_identifier(name), by, name, policy)


def _fits(name: str, pattern: str) -> bool:
    if "/" in pattern:
        return False
    patterns = (pattern, spdx.undecided(pattern))
    return any(fnmatchcase(name.lower(), one.lower()) for one in patterns)


def _of_family(family: str, by: str, name: str, policy: Policy) -> Ruling:
    for verdict in reversed(VERDICTS):
        if family in policy.of(verdict):
            return Ruling(verdict, family, by, name)
    return Ruling(ASK, "", by, name)


def _strictest(rulings: Sequence[Ruling]) -> Ruling:
    return max(rulings, key=_weight)


def _mildest(rulings: Sequence[Ruling]) -> Ruling:
    return min(rulings, key=_weight)


def _weight(ruling: Ruling) -> int:
    return VERDICTS.index(ruling.verdict)
