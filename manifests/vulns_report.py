"""What a look for known vulnerabilities found."""

from dataclasses import dataclass
from typing import Any

from manifests.errors import UsageError
from manifests.names import printable
from manifests.records import to_data
from manifests.vulns import LEVELS
from manifests.vulns_ignores import Ignore
from manifests.vulns_packages import Unseen

#: The threshold that everything is above.
ANY = "any"
THRESHOLDS = (*LEVELS, ANY)
#: Days. Advisories for what a bundle holds come out each week.
OLD = 30
#: Kinds of findings.
PACKAGE, PICKLE = "package", "pickle"
#: What is wrong with a file of a model: it runs code; it calls something odd; it is a pickle that
#: nobody allowed; it can't be read.
RUNS, ODD, UNALLOWED, UNJUDGED = "runs", "unknown", "unallowed", "unjudged"
#: Why no file of a model was scanned: there is none here, or no program that could.
NO_BYTES, NOT_HERE = "lock", "here"


@dataclass(frozen=True)
class Finding:
    """One vulnerability of one package, or one file of a model that may run code."""

    kind: str  # PACKAGE or PICKLE
    name: str  # of the package, or of the model
    version: str
    id: str
    level: str  # one of LEVELS: what it counts as
    aliases: tuple[str, ...] = ()
    score: str = ""
    vector: str = ""
    stated: bool = True  # False: nobody says how bad it is
    summary: str = ""  # of a file: what it calls, or why it can't be judged
    why: str = ""  # of a file: RUNS, ODD, UNALLOWED or UNJUDGED
    fixed: tuple[str, ...] = ()  # versions that mend it
    places: tuple[str, ...] = ()  # where the package lies in the bundle

    @property
    def ids(self) -> tuple[str, ...]:
        """All its names."""
        return (self.id, *self.aliases)

    def text(self) -> str:
        """One line of an error."""
        mend = f"; fixed in {', '.join(self.fixed)}" if self.fixed else ""
        return printable(f"{self.level}: {self.name} {self.version}: {self.id}{mend}")


@dataclass(frozen=True)
class Ignored:
    """A finding that somebody has looked at and takes."""

    finding: Finding
    ignore: Ignore


@dataclass(frozen=True)
class Source:
    """Which database it was, and how old."""

    date: str  # of its newest record
    age: int  # days; negative: newer than the day on which it is judged
    source: str  # file name of the dump that it was made from
    source_sha256: str
    records: int  # in that dump
    vulnerabilities: int  # in the database
    packages: int  # made for so many; 0: for all


@dataclass(frozen=True)
class Report:
    """All of it. The same question gives the same report."""

    name: str  # of the bundle
    lock_sha256: str
    judged: str  # "2026-12-01": the day on which age and expiry are judged
    threshold: str  # one of THRESHOLDS; empty: nothing stops
    database: Source
    compared: int  # packages
    findings: tuple[Finding, ...] = ()  # that count, the worst first
    ignored: tuple[Ignored, ...] = ()
    expired: tuple[Ignore, ...] = ()  # whose findings count again
    idle: tuple[Ignore, ...] = ()  # that name nothing in this bundle
    unseen: tuple[Unseen, ...] = ()  # what of the bundle was not looked at
    pickles: tuple[str, ...] = ()  # files of models that were scanned
    unscanned: str = ""  # NO_BYTES or NOT_HERE; empty: they were

    @property
    def over(self) -> tuple[Finding, ...]:
        """The findings that the threshold does not let through."""
        if not self.threshold:
            return ()
        least = 0 if self.threshold == ANY else LEVELS.index(self.threshold)
        return tuple(one for one in self.findings if LEVELS.index(one.level) >= least)

    def counts(self) -> dict[str, int]:
        """Findings by level, the worst first."""
        levels = [one.level for one in self.findings]
        return {level: levels.count(level) for level in reversed(LEVELS)}

    def as_record(self) -> dict[str, Any]:
        """The report as --json prints it."""
        record: dict[str, Any] = to_data(self)
        for name in ("findings", "ignored", "expired", "idle", "unseen", "pickles"):
            record.setdefault(name, [])
        return record | {
            "counts": self.counts(),
            "over": [one.id for one in self.over],
            "passes": not self.over,
            "old": is_old(self.database),
        }

    def check(self) -> None:
        """Raise UsageError where something is over the threshold."""
        if self.over:
            raise refusal(self)


def refusal(report: Report) -> UsageError:
    """What is over the threshold, as an error: no byte is wrong, but a rule forbids it."""
    what = "any level" if report.threshold == ANY else f"the level {report.threshold}"
    return UsageError(
        f"{report.name}: {len(report.over)} known vulnerabilities at or above {what}",
        why=f"the threshold forbids it; database of {report.database.date}",
        mend="take the versions that mend them (bundle lock --upgrade-package NAME), or say why "
        "they may stay in a list of ignored ones (--ignore FILE)",
        findings=[one.text() for one in report.over],
    )


def is_old(source: Source) -> bool:
    """Whether a person should be told of a database's age."""
    return source.age > OLD
