"""Reduce records of the OSV schema to a database that both sides can compare with.

https://ossf.github.io/osv-schema/. What is kept is what a comparison needs: names, levels, one line
of text, intervals of affected versions, and versions that are in none of them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from bundler.papers import vulns_severity
from bundler.papers.vulns_severity import Severity
from manifests.errors import UsageError
from manifests.vulns import LEVELS, SCHEMA, Database, Interval, Vulnerability
from manifests.vulns_match import covered
from manifests.vulns_packages import normalised
from manifests.vulns_versions import key

ECOSYSTEM = "PyPI"
#: Ranges whose events are versions; those of GIT are commits.
_VERSIONS = {"ECOSYSTEM", "SEMVER"}
#: Packages that are themselves an attack; nobody rates them:
#: https://github.com/ossf/malicious-packages.
_MALICIOUS = "MAL-"
#: Characters of a summary.
_LONGEST = 240
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")


@dataclass
class _Record:
    """One record, as far as it is about one package."""

    ids: set[str]
    modified: str
    summary: str
    severity: Severity
    intervals: list[Interval] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)


def reduced(
    records: Iterable[tuple[str, Any]],
    source: str,
    source_sha256: str,
    packages: Collection[str] = (),
) -> Database:
    """The database of records; `packages` (normalised names) are all that are kept, if any.

    Raises UsageError where a record is not one, or is of a schema that is not known.
    """
    found: dict[str, list[_Record]] = {}
    newest, count = "", 0
    for name, record in records:
        try:
            modified, kept = _read(record)
        except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
            raise UsageError(
                f"{name}: not a record of the OSV schema ({type(error).__name__}: {error})",
                mend="name a dump of records and nothing else, or fetch it again",
            ) from None
        newest = max(newest, modified)
        count += bool(kept)
        for package, one in kept.items():
            if not packages or package in packages:
                found.setdefault(package, []).append(one)
    if not count:
        raise UsageError(
            f"{source}: no record of {ECOSYSTEM} in it",
            mend=f"take the dump of the ecosystem {ECOSYSTEM}",
        )
    merged = [one for package, ones in found.items() for one in _merged(package, ones)]
    return Database(
        schema=SCHEMA,
        date=newest,
        source=source,
        source_sha256=source_sha256,
        records=count,
        vulnerabilities=tuple(sorted(merged, key=lambda one: (one.package, one.id))),
        packages=tuple(sorted(packages)),
    )


def _read(record: Any) -> tuple[str, dict[str, _Record]]:
    """When a record was changed, and what it says of each package; nothing where withdrawn."""
    if str(record.get("schema_version", "1.0.0")).partition(".")[0] != "1":
        raise ValueError(f"schema_version {record['schema_version']}")
    match = _TIME.fullmatch(record["modified"])
    if match is None:
        raise ValueError(f"modified {record['modified']!r}")
    modified = f"{match[1]}Z"
    kept: dict[str, _Record] = {}
    if record.get("withdrawn"):
        return modified, kept
    ids = {_text(one) for one in (record["id"], *_list(record, "aliases"))}
    summary = _line(record.get("summary") or record.get("details") or "")
    specific = record.get("database_specific") or {}
    for affected in _list(record, "affected"):
        package = affected.get("package") or {}
        # A suffix names a part of an ecosystem, "Debian:12".
        if package.get("ecosystem", "").partition(":")[0] != ECOSYSTEM:
            continue
        stated = (*_list(record, "severity"), *_list(affected, "severity"))
        severity = vulns_severity.of(stated, specific)
        if record["id"].startswith(_MALICIOUS):
            severity = Severity(LEVELS[-1])
        name = normalised(package["name"])
        one = kept.setdefault(name, _Record(ids, modified, summary, severity))
        one.severity = vulns_severity.worst((one.severity, severity))
        one.versions += map(_text, _list(affected, "versions"))
        for span in _list(affected, "ranges"):
            if span["type"] in _VERSIONS:
                one.intervals += intervals(span["events"])
    return modified, kept


def intervals(events: Sequence[Mapping[str, str]]) -> Iterator[Interval]:
    """A range's events as intervals, by the schema's rule: in the versions' order.

    In the publisher's, where one is no version and has no place in that order.
    """
    listed = [(kind, _text(version)) for event in events for kind, version in event.items()]
    if all(key(version) is not None for _, version in listed):
        listed.sort(key=lambda one: (_order(one[1]), one[0]))  # fixed before last_affected
    start: str | None = None
    for _, tied in groupby(listed, key=lambda one: _order(one[1])):
        for kind, version in _closing_first(list(tied), start is not None):
            if kind == "introduced":
                start = version if start is None else start
            elif kind == "fixed" and start is not None:
                yield Interval(_first(start), fixed=version)
                start = None
            elif kind == "last_affected" and start is not None:
                yield Interval(_first(start), last=version)
                start = None
    if start is not None:
        yield Interval(_first(start))


def _closing_first(tied: list[tuple[str, str]], is_open: bool) -> list[tuple[str, str]]:
    """Events at one version: what is open is closed before the next starts, and that then ends."""
    starts = [one for one in tied if one[0] == "introduced"]
    ends = [one for one in tied if one[0] != "introduced"]
    return [*ends[:is_open], *starts, *ends[is_open:]]


def _first(version: str) -> str:
    """The schema's "0" comes before every version, 0.dev0 too."""
    return "" if version == "0" else version


def _order(version: str) -> tuple[Any, ...]:
    """The place of a version; a text that is none has one of its own."""
    found = key(version)
    return (0,) if version == "0" else (1, version) if found is None else (2, found)


def _merged(package: str, records: list[_Record]) -> Iterator[Vulnerability]:
    """Records that share a name as one vulnerability: several databases tell of the same."""
    groups: list[list[_Record]] = []
    for record in records:
        same = [group for group in groups if any(one.ids & record.ids for one in group)]
        groups = [group for group in groups if group not in same]
        groups.append([record, *(one for group in same for one in group)])
    for group in groups:
        group.sort(key=lambda one: sorted(one.ids))
        first, *others = sorted({name for one in group for name in one.ids}, key=_preference)
        spans = dict.fromkeys(span for one in group for span in one.intervals)
        # Of what the intervals have there is no need to list each version.
        spare = {v for one in group for v in one.versions if not covered(v, spans)}
        worst = vulns_severity.worst([one.severity for one in group])
        yield Vulnerability(
            package=package,
            id=first,
            modified=max(one.modified for one in group),
            aliases=tuple(sorted(others)),
            summary=next((one.summary for one in group if one.summary), ""),
            level=worst.level,
            score=worst.score,
            vector=worst.vector,
            intervals=tuple(sorted(spans, key=lambda one: (one.introduced, one.fixed, one.last))),
            versions=tuple(sorted(spare)),
        )


def _preference(name: str) -> tuple[int, str]:
    """Which of its names a vulnerability is called by: as pip-audit prefers them."""
    start = ("PYSEC", "CVE")
    return next((i for i, one in enumerate(start) if name.startswith(one)), len(start)), name


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    if not isinstance(value, list | None):
        raise TypeError(f"{name} is no list")
    return value or []


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is no text")
    return value


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
