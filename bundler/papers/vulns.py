"""Known vulnerabilities of what is in a bundle, by a database that can be carried as a file."""

import datetime
from collections.abc import Collection, Sequence
from pathlib import Path

from bundler.inspecting import Subject
from bundler.naming import bundle_name
from bundler.papers import vulns_dump, vulns_osv, vulns_service
from bundler.papers.bill import CONDA, WHEEL, Bill
from manifests import vulns, vulns_judge, vulns_packages
from manifests.errors import UsageError
from manifests.vulns import Database
from manifests.vulns_ignores import Ignore
from manifests.vulns_judge import DATABASE, Question, Scan
from manifests.vulns_packages import Contents, Item
from manifests.vulns_report import NO_BYTES, Report


def make_database(dump: Path, packages: Collection[str] = ()) -> Database:
    """The database of a publisher's dump; `packages` are all that are kept, if any are given.

    Raises UsageError where it is missing, damaged or something else.
    """
    with vulns_dump.opened(dump) as found:
        return vulns_osv.reduced(found.records, found.name, found.sha256, packages)


def load_database(path: Path, packages: Collection[str] = ()) -> Database:
    """A database, or a dump as its publisher distributes it, of which `packages` are kept.

    Raises UsageError where it is missing, damaged or something else.
    """
    if path.is_dir() or (path.is_file() and _starts_as_zip(path)):
        return make_database(path, packages)
    return vulns.load(path)


def _starts_as_zip(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(2) == b"PK"


def of_subject(subject: Subject) -> Contents:
    """What a bundle, a lock or an installation holds: what its lock names.

    Raises UsageError where the lock is out of reach.
    """
    if subject.lock is None:
        raise UsageError(
            f"{subject.path}: the lock is out of reach",
            why="; ".join(subject.notes),
            mend="name the folder of the missing volume with --volumes-in DIR",
        )
    if subject.manifest is None:
        return vulns_packages.of_lock(bundle_name(subject.lock), subject.lock, subject.digest)
    manifest = subject.manifest
    return vulns_packages.of_lock(manifest.name, subject.lock, manifest.lock_sha256)


def of_bill(bill: Bill) -> Contents:
    """The same by a bill."""
    kinds = {WHEEL: vulns_packages.WHEEL, CONDA: vulns_packages.CONDA}
    items = tuple(
        Item(kinds[one.kind], one.name, one.version, one.scope, one.filename)
        for one in bill.components
        if one.kind in kinds
    )
    return Contents(bill.name, bill.lock_sha256, items)


def names(contents: Contents) -> frozenset[str]:
    """The names by which a database may know what a bundle holds."""
    packages, _ = vulns_packages.sort_out(contents.items)
    return frozenset(one.name for one in packages)


def look(contents: Contents, question: Question, scan: Scan) -> Report:
    """What is known of a bundle's packages, and what was found in its models' files."""
    return vulns_judge.judge(contents, question, vulns_service.audit, scan)


def enforce(
    bill: Bill,
    database: Database,
    threshold: str,
    ignores: Sequence[Ignore] = (),
    today: datetime.date | None = None,
) -> Report:
    """The look of `bundle create`: before the models' bytes are there; on the lock's day, or today.

    Raises UsageError where something is at or above the threshold, or not in the database at all.
    """
    day = today or datetime.datetime.fromtimestamp(bill.created, datetime.UTC).date()
    question = Question(database, day, threshold, tuple(ignores))
    report = look(of_bill(bill), question, Scan(missing=NO_BYTES))
    report.check()
    blind = [f"{one.name} {one.version}" for one in report.unseen if one.kind == DATABASE]
    if threshold and blind:
        raise UsageError(
            f"{bill.name}: the database was not made for {len(blind)} of its packages",
            why="what it does not know can't be held against the threshold",
            mend="make it for this bundle's lock (bundle vulns-database FILE --from DUMP --for "
            "bundle.lock), or whole",
            findings=blind,
        )
    return report
