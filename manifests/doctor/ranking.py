"""Which of the rules that were found is the cause: by evidence, never by the first match."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from manifests.doctor.matching import Match
from manifests.doctor.rules import Probe, probes

CONFIRMED, LIKELY, POSSIBLE = "confirmed", "likely", "possible"
FOLLOWS, CONTRADICTED, EARLIER = "follows", "contradicted", "earlier"
#: How findings stand, the best first.
STANDINGS = (CONFIRMED, LIKELY, POSSIBLE, FOLLOWS, CONTRADICTED, EARLIER)


@dataclass(frozen=True)
class Answer:
    """What a host says to a probe."""

    holds: bool | None  # None: it can't be told
    found: str = ""


@dataclass(frozen=True)
class Evidence:
    """A probe and what the host has answered."""

    probe: Probe
    answer: Answer

    @property
    def agrees(self) -> bool:
        """Whether it speaks for the rule."""
        return self.answer.holds is True

    @property
    def confirms(self) -> bool:
        """Whether it speaks for the rule, and not for half of all hosts."""
        return self.agrees and not self.probe.common

    @property
    def denies(self) -> bool:
        """Whether it did not hold when the log was written, either."""
        return self.answer.holds is False and self.probe.lasting


@dataclass(frozen=True)
class Ranked:
    """A rule that was found, with its evidence and its standing among the others."""

    match: Match
    evidence: tuple[Evidence, ...]
    standing: str
    follows: str = ""  # the rule that it follows from


def wanted(matches: Iterable[Match]) -> tuple[str, ...]:
    """The probes that tell these rules apart."""
    return tuple(dict.fromkeys(name for match in matches for name in match.rule.asks))


def rank(matches: Sequence[Match], answers: Mapping[str, Answer]) -> tuple[Ranked, ...]:
    """Order what was found: what the host confirms, then what came first and says most.

    `matches` are in the order of the logs, the most telling log first.
    """
    order = {match.log: number for number, match in reversed(list(enumerate(matches)))}
    weighed = [_weigh(match, answers) for match in matches]
    causes = [
        one for one in weighed if one.standing in (CONFIRMED, LIKELY) and not one.match.rule.hint
    ]
    settled = [_follow(one, causes) for one in weighed]
    return tuple(
        sorted(
            settled,
            key=lambda one: (
                STANDINGS.index(one.standing),
                order[one.match.log],
                one.match.line,
                -one.match.specificity,
                one.match.rule.id,
            ),
        )
    )


def _weigh(match: Match, answers: Mapping[str, Answer]) -> Ranked:
    known = probes()
    evidence = tuple(
        Evidence(known[name], answers[name]) for name in match.rule.asks if name in answers
    )
    if match.earlier:
        standing = EARLIER
    elif any(one.confirms for one in evidence):
        standing = CONFIRMED
    elif _contradicted(match, evidence):
        standing = CONTRADICTED
    else:
        standing = POSSIBLE if match.rule.hint else LIKELY
    return Ranked(match, evidence, standing)


def _contradicted(match: Match, evidence: Sequence[Evidence]) -> bool:
    needed = [one for one in evidence if one.probe.name in match.rule.requires]
    return bool(needed) and all(one.denies for one in needed)


def _follow(one: Ranked, causes: Sequence[Ranked]) -> Ranked:
    """The same, as a consequence of another where it is one."""
    rule = one.match.rule
    if one.standing in (CONTRADICTED, EARLIER):
        return one
    masking = [
        cause.match.rule.id
        for cause in causes
        if cause.match.rule is not rule
        and (rule.id in cause.match.rule.masks or (rule.consequence and not _follows_only(cause)))
    ]
    return Ranked(one.match, one.evidence, FOLLOWS, masking[0]) if masking else one


def _follows_only(one: Ranked) -> bool:
    return one.match.rule.consequence
