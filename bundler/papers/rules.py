"""The rules that `bundle create` is given: what a bundle's licences and known faults have to pass.

Read before anything long, so that a wrong file stops nothing half done; judged on the bill, before
the environment is built.
"""

import datetime
from dataclasses import dataclass

from bundler.locking import epoch
from bundler.papers import policy, vulns
from bundler.papers.bill import Bill
from bundler.papers.policy import Policy
from bundler.request import Request
from manifests import vulns_ignores
from manifests.errors import UsageError
from manifests.vulns import Database
from manifests.vulns_ignores import Ignore
from manifests.vulns_judge import DATABASE
from manifests.vulns_packages import CONDA, VERSION
from manifests.vulns_report import Report, is_old


@dataclass(frozen=True)
class Rules:
    """A policy of licences, and a threshold of known vulnerabilities."""

    policy: Policy | None = None
    accepted: bool = False  # somebody has looked at what the policy wants to be asked about
    database: Database | None = None
    threshold: str = ""
    ignores: tuple[Ignore, ...] = ()
    today: datetime.date | None = None  # on which exceptions are over; None: the lock's day


#: Nothing is judged.
NONE = Rules()


def load(request: Request) -> Rules:
    """The rules that a request names.

    Exceptions are judged today (or at SOURCE_DATE_EPOCH): an old lock revives none. Raises
    UsageError for a file that is missing or wrong, and for an option without the file it is about.
    """
    if request.accept_licences and request.licence_policy is None:
        raise UsageError(
            "--accept-licences: there is no policy that asks",
            mend="name one with --licence-policy FILE (see: bundle licences --help)",
        )
    if request.vulns_ignore is not None and request.vulns_database is None:
        raise UsageError(
            "--vulns-ignore: there is nothing to look into",
            mend="name a database with --vulns-database FILE (see: bundle vulns-database --help)",
        )
    if request.fail_on and request.vulns_database is None:
        raise UsageError(
            "--fail-on: there is nothing to look into",
            mend="name a database with --vulns-database FILE (see: bundle vulns-database --help)",
        )
    if request.licence_policy is None and request.vulns_database is None:
        return NONE
    return Rules(
        policy.load(request.licence_policy) if request.licence_policy is not None else None,
        request.accept_licences,
        vulns.load_database(request.vulns_database) if request.vulns_database is not None else None,
        request.fail_on or "",
        vulns_ignores.load(request.vulns_ignore) if request.vulns_ignore is not None else (),
        datetime.datetime.fromtimestamp(epoch(), datetime.UTC).date(),
    )


def enforce(bill: Bill, rules: Rules) -> tuple[str, ...]:
    """Refuse what the rules forbid; gives sentences on what they let pass only just.

    Raises UsageError with everything that they forbid.
    """
    told: list[str] = []
    if rules.policy is not None:
        findings = policy.enforce(bill, rules.policy, today=rules.today, accepted=rules.accepted)
        told += [policy.sentence(finding) for finding in policy.notable(findings)]
    if rules.database is not None:
        report = vulns.enforce(bill, rules.database, rules.threshold, rules.ignores, rules.today)
        told.append(_sentence(report))
    return tuple(told)


def _sentence(report: Report) -> str:
    """What was found, of how many packages, and what was not looked into."""
    counts = ", ".join(f"{count} {level}" for level, count in report.counts().items() if count)
    apart = sum(one.kind in (CONDA, VERSION, DATABASE) for one in report.unseen)
    age = f", {report.database.age} days before" if is_old(report.database) else ""
    return (
        f"known vulnerabilities on {report.database.date}{age}: {counts or 'none'}; "
        f"{report.compared} of {report.compared + apart} packages compared, the models' files not "
        "looked into (bundle vulns does)"
    )
