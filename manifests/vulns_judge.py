"""Judge what a bundle holds by a database, a threshold, and a list of what is ignored."""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from manifests.errors import UsageError
from manifests.vulns import LEVELS, UNKNOWN, Database, Vulnerability
from manifests.vulns_ignores import Ignore
from manifests.vulns_match import Match, Package
from manifests.vulns_packages import Contents, Unseen, sort_out
from manifests.vulns_report import PACKAGE, Finding, Ignored, Report, Source

#: Kinds of what is not looked at: what a database was not made for; records that name no version
#: that could be compared; files of models that a delta leaves to its base; code of models; files of
#: models that could not be read as pickles.
DATABASE, RANGES, BASE, REMOTE, UNREAD = "database", "ranges", "base", "remote", "unread"
_DAY = datetime.timedelta(days=1)
#: How vulnerabilities by package are compared with packages.
Matcher = Callable[[Mapping[str, Sequence[Vulnerability]], Sequence[Package]], tuple[Match, ...]]


@dataclass(frozen=True)
class Question:
    """By what it is judged, and on which day."""

    database: Database
    today: datetime.date
    threshold: str = ""  # one of manifests.vulns_report.THRESHOLDS
    ignores: tuple[Ignore, ...] = ()
    unknown_as: str = "high"  # what counts where nobody says how bad it is

    def check_age(self, most: int | None) -> None:
        """Refuse a database that is older than `most` days.

        Raises UsageError.
        """
        if most is not None and self.age > most:
            raise UsageError(
                f"the database is {self.age} days old, and {most} are allowed",
                why=f"its newest record is of {self.database.date}, and it is judged on "
                f"{self.today}",
                mend="make it anew from a newer dump: bundle vulns-database FILE --from DUMP",
            )

    @property
    def age(self) -> int:
        """Of the database, in days."""
        return (self.today - self.database.day) // _DAY

    def source(self) -> Source:
        """The database as a report names it."""
        return Source(
            date=self.database.date,
            age=self.age,
            source=self.database.source,
            source_sha256=self.database.source_sha256,
            records=self.database.records,
            vulnerabilities=len(self.database.vulnerabilities),
            packages=len(self.database.packages),
        )


@dataclass(frozen=True)
class Scan:
    """What was looked at in models, and what was found there."""

    files: tuple[str, ...] = ()  # "MODEL/PATH"
    findings: tuple[Finding, ...] = ()
    missing: str = ""  # NO_BYTES or NOT_HERE; empty: it was done
    unseen: tuple[Unseen, ...] = ()  # files of models that are elsewhere, code, or not readable


def day(text: str) -> datetime.date:
    """A day as it is written on a command line.

    Raises UsageError where it is none.
    """
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no day", mend="write it as 2026-12-01") from None


def judge(contents: Contents, question: Question, match: Matcher, scan: Scan) -> Report:
    """The report on what a bundle holds."""
    database, ignores = question.database, question.ignores
    packages, unseen = sort_out(contents.items)
    blind = {
        Unseen(DATABASE, one.name, one.version) for one in packages if not database.covers(one.name)
    }
    matches = match(database.by_package(), packages)
    found = [*_findings(matches, question.unknown_as), *scan.findings]
    found.sort(key=lambda one: (-LEVELS.index(one.level), one.name, one.version, one.id))
    holding = {one.id: one for one in ignores if one.holds(question.today)}
    taken = {one: _taken(one, holding) for one in found}
    names = {name for one in found for name in one.ids}
    vague = _vague(database, packages)
    return Report(
        name=contents.name,
        lock_sha256=contents.lock_sha256,
        judged=question.today.isoformat(),
        threshold=question.threshold,
        database=question.source(),
        compared=len(packages) - len(blind),
        findings=tuple(one for one in found if taken[one] is None),
        ignored=tuple(Ignored(one, ignore) for one, ignore in taken.items() if ignore),
        expired=tuple(one for one in ignores if one.id in names and one.id not in holding),
        idle=tuple(one for one in ignores if one.id not in names),
        unseen=tuple(sorted({*unseen, *blind, *scan.unseen, *vague}, key=_place)),
        pickles=scan.files,
        unscanned=scan.missing,
    )


def _findings(matches: Iterable[Match], unknown_as: str) -> Iterator[Finding]:
    for match in matches:
        one, package = match.vulnerability, match.package
        yield Finding(
            kind=PACKAGE,
            name=package.name,
            version=package.version,
            id=one.id,
            level=unknown_as if one.level == UNKNOWN else one.level,
            aliases=one.aliases,
            score=one.score,
            vector=one.vector,
            stated=one.level != UNKNOWN,
            summary=one.summary,
            fixed=one.fixed,
            places=package.places,
        )


def _taken(one: Finding, holding: Mapping[str, Ignore]) -> Ignore | None:
    return next((holding[name] for name in one.ids if name in holding), None)


def _vague(database: Database, packages: Sequence[Package]) -> set[Unseen]:
    """Records that name commits alone, of packages that are here."""
    here = {one.name for one in packages}
    return {
        Unseen(RANGES, one.package, one.id)
        for one in database.vulnerabilities
        if one.package in here and not one.intervals and not one.versions
    }


def _place(one: Unseen) -> tuple[str, str, str]:
    return one.kind, one.name, one.version
