"""Whether the licences of a bundle fit a policy.

What is more exact counts: a component before a licence, a licence with its exception ("… WITH …")
before one without, a licence before its family. Of what is equally exact the stricter counts. Of
an expression's OR the mildest choice counts, of its AND the strictest part. What no list names is
to be asked about.

Both the declared licence and the texts are judged: a text that no declaration covers counts as if
it were declared too, for whoever passes it on is bound by it.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from bundler.papers import licences
from bundler.papers.bill import Bill, Component
from bundler.papers.licences import Line, Report
from bundler.papers.licences_told import called, say
from bundler.papers.policy_file import ALLOW as ALLOW
from bundler.papers.policy_file import ASK as ASK
from bundler.papers.policy_file import DENY as DENY
from bundler.papers.policy_file import VERDICTS, Pardon
from bundler.papers.policy_file import Policy as Policy
from bundler.papers.policy_file import load as load
from bundler.papers.policy_rulings import Ruling, meant, of_line
from manifests.errors import UsageError


@dataclass(frozen=True)
class Finding:
    """What a policy says of one component."""

    component: Component
    verdict: str  # one of VERDICTS
    ruling: Ruling  # that decided
    pardon: Pardon | None = None  # by which it is allowed all the same
    over: datetime.date | None = None  # last day of an exception that it had


def judge(
    report: Report, policy: Policy, today: datetime.date | None = None
) -> tuple[Finding, ...]:
    """One finding for each component, in the order of the bill.

    `today` decides which exceptions are over; the day of the bundle's `created` (UTC) otherwise,
    so that one bundle and one policy give one answer.
    """
    day = today or created(report.bill)
    return tuple(_finding(line, policy, day) for line in report.lines)


def unused(findings: Sequence[Finding], policy: Policy) -> tuple[Pardon, ...]:
    """Exceptions that nothing needs (any more): a policy should not keep them."""
    used = [finding.pardon for finding in findings]
    return tuple(one for one in policy.exceptions if one not in used)


def created(bill: Bill) -> datetime.date:
    """The day of a bundle."""
    return datetime.datetime.fromtimestamp(bill.created, datetime.UTC).date()


def enforce(
    bill: Bill, policy: Policy, *, today: datetime.date | None = None, accepted: bool = False
) -> tuple[Finding, ...]:
    """Stop what a policy does not let through; gives the findings.

    `accepted`: somebody has looked at everything that is to be asked about (`--accept-licences`),
    so only what is denied stops. A person is never asked on a terminal: a run without one would
    hang, and nobody could say later who answered. Raises UsageError.
    """
    findings = judge(licences.read(bill), policy, today)
    refuse(findings, accepted=accepted)
    return findings


def passes(findings: Sequence[Finding], *, accepted: bool = False) -> bool:
    """Whether nothing is denied, and nothing to be asked about that was not `accepted`."""
    stopping = (DENY,) if accepted else (DENY, ASK)
    return not any(one.verdict in stopping for one in findings)


def refuse(findings: Sequence[Finding], *, accepted: bool = False) -> None:
    """Raise UsageError for what is denied, or to be asked about and not `accepted`."""
    denied = [one for one in findings if one.verdict == DENY]
    asked = [one for one in findings if one.verdict == ASK and not accepted]
    if passes(findings, accepted=accepted):
        return
    counts = [f"{len(denied)} denied"] if denied else []
    counts += [f"{len(asked)} to be asked about"] if asked else []
    accept = "; --accept-licences accepts those to be asked about" if asked else ""
    raise UsageError(
        f"the licences do not fit the policy: {', '.join(counts)}",
        why="the policy has them on a list, or no list of it names them",
        mend="leave the components out, or give each an exception with its reason in the policy"
        + accept,
        findings=[sentence(one) for one in (*denied, *asked)],
    )


def notable(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """All but what a policy simply allows, the strictest first."""
    told = (one for one in findings if one.verdict != ALLOW or one.pardon)
    return tuple(sorted(told, key=lambda one: -VERDICTS.index(one.verdict)))


def sentence(finding: Finding) -> str:
    """A finding in one line."""
    one = finding.component
    return f"{finding.verdict}: {one.kind} {called(one)}: {reason(finding, 'en')}"


def reason(finding: Finding, language: str) -> str:
    """Why a policy says so."""
    ruling = finding.ruling
    if ruling.by == "provided":
        return say(language, "by-provided")
    what = say(language, f"by-{ruling.by}", name=ruling.name, place=ruling.place)
    why = say(
        language,
        "ruled" if ruling.pattern else "unlisted",
        what=what,
        verdict=ruling.verdict,
        pattern=repr(ruling.pattern),
    )
    if finding.pardon is not None:
        return say(language, "pardoned", why=why, reason=finding.pardon.reason)
    return say(language, "over", why=why, day=finding.over) if finding.over else why


def _finding(line: Line, policy: Policy, day: datetime.date) -> Finding:
    one = line.component
    ruling = of_line(line, policy)
    if ruling.verdict == ALLOW:
        return Finding(one, ALLOW, ruling)
    pardons = [pardon for pardon in policy.exceptions if meant(pardon.pattern, one)]
    for pardon in pardons:
        if pardon.until is None or day <= pardon.until:
            return Finding(one, ALLOW, ruling, pardon)
    return Finding(one, ruling.verdict, ruling, over=pardons[0].until if pardons else None)
