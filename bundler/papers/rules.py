"""The rules that `bundle create` is given: what a bundle's licences and known faults have to pass.

Read before anything long, so that a wrong file stops nothing half done; judged on the bill, before
the environment is built.
"""

from dataclasses import dataclass

from bundler.papers import policy, vulns
from bundler.papers.bill import Bill
from bundler.papers.policy import Policy
from bundler.request import Request
from manifests import vulns_ignores
from manifests.errors import UsageError
from manifests.vulns import Database
from manifests.vulns_ignores import Ignore


@dataclass(frozen=True)
class Rules:
    """A policy of licences, and a threshold of known vulnerabilities."""

    policy: Policy | None = None
    accepted: bool = False  # somebody has looked at what the policy wants to be asked about
    database: Database | None = None
    threshold: str = ""
    ignores: tuple[Ignore, ...] = ()


#: Nothing is judged.
NONE = Rules()


def load(request: Request) -> Rules:
    """The rules that a request names.

    Raises UsageError for a file that is missing or wrong, and for a threshold without a database.
    """
    if request.fail_on and request.vulns_database is None:
        raise UsageError(
            "--fail-on: there is nothing to look into",
            mend="name a database with --vulns-database FILE (see: bundle vulns-database --help)",
        )
    return Rules(
        policy.load(request.licence_policy) if request.licence_policy is not None else None,
        request.accept_licences,
        vulns.load_database(request.vulns_database) if request.vulns_database is not None else None,
        request.fail_on or "",
        vulns_ignores.load(request.vulns_ignore) if request.vulns_ignore is not None else (),
    )


def enforce(bill: Bill, rules: Rules) -> tuple[str, ...]:
    """Refuse what the rules forbid; gives sentences on what they let pass only just.

    Raises UsageError with everything that they forbid.
    """
    told: list[str] = []
    if rules.policy is not None:
        findings = policy.enforce(bill, rules.policy, accepted=rules.accepted)
        told += [policy.sentence(finding) for finding in policy.notable(findings)]
    if rules.database is not None:
        report = vulns.enforce(bill, rules.database, rules.threshold, rules.ignores)
        counts = ", ".join(f"{count} {level}" for level, count in report.counts().items() if count)
        told.append(f"known vulnerabilities on {report.database.date}: {counts or 'none'}")
    return tuple(told)
