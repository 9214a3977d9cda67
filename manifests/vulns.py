"""The database of known vulnerabilities, reduced to what a comparison needs: one file to carry.

`bundle vulns-database` makes it from what its publisher distributes (records of the form
https://ossf.github.io/osv-schema/); both sides read it. Canonical JSON, so that the same dump gives
the same file.
"""

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from manifests import canonical, regular
from manifests.errors import BundleError, IntegrityError, UsageError
from manifests.names import DIGEST
from manifests.records import from_data, to_data

SCHEMA = 1
#: Levels, from the least; those of https://www.first.org/cvss/v4.0/specification-document,
#: section 6.
LEVELS = ("low", "medium", "high", "critical")
UNKNOWN = "unknown"
#: Bytes. The whole of PyPI has some ten megabytes.
LIMIT = 256 << 20
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MAKE = "make it with: bundle vulns-database FILE --from DUMP"


@dataclass(frozen=True)
class Interval:
    """Affected versions, from one on to before another, or to another and that too."""

    introduced: str = ""  # empty: from the first version
    fixed: str = ""  # the first that is not affected
    last: str = ""  # the last that is affected; neither: all from `introduced` on


@dataclass(frozen=True)
class Vulnerability:
    """One vulnerability of one package; records that are aliases of each other are one."""

    package: str  # normalised (PEP 503)
    id: str  # of PyPA where there is one, else of CVE, else any
    modified: str  # "2026-10-29T11:00:02Z"
    aliases: tuple[str, ...] = ()  # sorted
    summary: str = ""  # one line
    level: str = UNKNOWN  # one of LEVELS, or UNKNOWN
    score: str = ""  # the highest CVSS base score, "9.8"
    vector: str = ""  # that gives it
    intervals: tuple[Interval, ...] = ()
    versions: tuple[str, ...] = ()  # affected ones that are in no interval

    @property
    def ids(self) -> tuple[str, ...]:
        """All its names."""
        return (self.id, *self.aliases)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The versions that mend it."""
        return tuple(dict.fromkeys(one.fixed for one in self.intervals if one.fixed))


@dataclass(frozen=True)
class Database:
    """What is known, and when and by whom it was said."""

    schema: int
    date: str  # of the newest record in the dump, "2026-10-29T11:00:02Z"
    source: str  # file name of the dump
    source_sha256: str  # of the dump, or of the listing of its files where it was a folder
    records: int  # in the dump, for this ecosystem, not withdrawn
    vulnerabilities: tuple[Vulnerability, ...]  # sorted by package and id
    packages: tuple[str, ...] = ()  # made for these alone, sorted; empty: for all

    def dump(self) -> bytes:
        """The canonical bytes."""
        return canonical.dumps(to_data(self))

    @property
    def day(self) -> datetime.date:
        """The date of the newest record."""
        return datetime.date.fromisoformat(self.date[:10])

    def covers(self, package: str) -> bool:
        """Whether it would know of a package's vulnerabilities."""
        return not self.packages or package in self.packages

    def by_package(self) -> dict[str, list[Vulnerability]]:
        """The vulnerabilities of each package."""
        found: dict[str, list[Vulnerability]] = {}
        for one in self.vulnerabilities:
            found.setdefault(one.package, []).append(one)
        return found


def load(path: Path) -> Database:
    """Read a database.

    Raises UsageError where the file is missing, damaged, of a newer schema, or another file.
    """
    try:
        return parse(regular.read(path, LIMIT), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", mend=_MAKE) from None
    except IntegrityError as error:
        raise UsageError(f"{path}: {error.what}", mend=_MAKE) from None


def parse(data: bytes, where: str) -> Database:
    """The database in bytes; `where` starts the sentences of errors.

    Raises UsageError where they are not one.
    """
    if data.startswith(b"PK"):
        raise UsageError(
            f"{where}: a zip file, not a database",
            why="a dump is reduced on the connected side",
            mend=_MAKE,
        )
    try:
        value = canonical.loads(data)
        schema = value.get("schema") if isinstance(value, dict) else None
        if isinstance(schema, int) and schema != SCHEMA:
            raise UsageError(
                f"{where}: schema {schema}, this release reads {SCHEMA}",
                mend="make it with the release that reads it: bundle vulns-database",
            )
        found = from_data(Database, value, "database", exact=True)
        _check(found)
    except (ValueError, IntegrityError) as error:
        told = error.what if isinstance(error, BundleError) else error
        raise UsageError(
            f"{where}: not a database of vulnerabilities, or a damaged one ({told})",
            why="it is one line of canonical JSON, which no editor keeps as it is",
            mend=f"copy it again, or {_MAKE}",
        ) from None
    return found


def _check(database: Database) -> None:
    """Refuse what `bundle vulns-database` does not write."""
    if not _DATE.fullmatch(database.date):
        raise IntegrityError(f"the date {database.date!r}")
    datetime.date.fromisoformat(database.date[:10])
    if not DIGEST.fullmatch(database.source_sha256):
        raise IntegrityError(f"the digest {database.source_sha256!r}")
    names = [(one.package, one.id) for one in database.vulnerabilities]
    if names != sorted(set(names)):
        raise IntegrityError("vulnerabilities out of order, or twice")
    for one in database.vulnerabilities:
        if one.level not in (*LEVELS, UNKNOWN):
            raise IntegrityError(f"{one.id}: the level {one.level!r}")
