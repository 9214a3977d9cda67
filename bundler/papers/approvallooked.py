"""What other papers say, in the two lines each that an approval has for it."""

import json
from pathlib import Path

from bundler.papers import licences
from bundler.papers.bill import Bill
from manifests import canonical, regular, vulns_report
from manifests.approval import Count, Licences, Vulnerabilities
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.records import from_data

#: Bytes. A report with thousands of findings takes a few million.
_LARGEST = 64 << 20
#: What a report's record has beside its fields; all of it follows from those.
_FOLLOWS = ("counts", "over", "passes", "old")


def licences_of(bill: Bill) -> Licences:
    """The families of the components' licences, and how many need a person's eye, by reason."""
    report = licences.read(bill)
    eyes = ((eye, len(report.looked_at(eye))) for eye in licences.EYES)
    return Licences(
        tuple(Count(name, count) for name, count in report.families.items()),
        tuple(Count(eye, count) for eye, count in eyes if count),
    )


def vulnerabilities_of(path: Path, lock_sha256: str) -> Vulnerabilities:
    """What `bundle vulns --format json` has found in the bundle with this lock.

    Raises UsageError where the file is missing, is no such report or is another bundle's.
    """
    try:
        data = regular.read(path, _LARGEST)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", mend=_MEND) from None
    except OSError as error:
        raise from_oserror(error, "reading the report", path) from None
    try:
        record = json.loads(data, object_pairs_hook=canonical.unique)
        if not isinstance(record, dict):
            raise ValueError("no table")
        json.dumps(record, ensure_ascii=False).encode()  # a lone surrogate can't be written
        fields = {name: value for name, value in record.items() if name not in _FOLLOWS}
        report = from_data(vulns_report.Report, fields, path.name)
    except (ValueError, RecursionError, IntegrityError) as error:
        raise UsageError(f"{path}: no report of `bundle vulns` ({error})", mend=_MEND) from None
    if report.lock_sha256 != lock_sha256:
        raise UsageError(
            f"{path}: is about another bundle, {report.name}",
            why=f"its lock has sha256 {report.lock_sha256}, this bundle's {lock_sha256}",
            mend=_MEND,
        )
    return Vulnerabilities(
        database=report.database.date,
        counts=tuple(Count(name, count) for name, count in report.counts().items() if count),
        worst=tuple(f"{one.id} {one.name} {one.version}" for one in report.findings),
        ignored=len(report.ignored),
        unseen=len(report.unseen),
        age=report.database.age if vulns_report.is_old(report.database) else 0,
        unscanned=report.unscanned,
    )


_MEND = "make it with: bundle vulns NAME --database FILE --format json --output FILE"
