"""The answer of the last recorded audit: `state/audit.json`, for `status` and for monitoring."""

import time
from dataclasses import dataclass
from pathlib import Path

from bundlectl import statefile
from bundlectl.layout import Layout
from bundlectl.syncing import write_whole
from manifests import FORMAT_VERSION, canonical
from manifests.audit.report import Report
from manifests.records import to_data

#: Findings that are kept; the journal has all of them.
_MOST = 100
_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"))


@dataclass(frozen=True)
class Audited:
    """What an audit of the installation answered."""

    schema: int
    finished: int = 0  # seconds since the epoch; 0: there was none
    intact: bool = False
    files: int = 0
    size: int = 0  # bytes covered
    count: int = 0  # of findings
    findings: tuple[str, ...] = ()  # the first of them
    manifest_sha256: tuple[str, ...] = ()

    def line(self, now: float | None = None) -> str:
        """One line for people; empty where there was no audit."""
        if not self.finished:
            return ""
        answer = "intact" if self.intact else f"NOT intact: {self.count} findings"
        return f"last recorded audit: {answer}, {_ago(self.finished, now)}"


def path_of(layout: Layout) -> Path:
    """Where it is kept: one for all instances, which share what is audited."""
    return layout.state / "audit.json"


def keep(layout: Layout, report: Report) -> None:
    """Keep the answer of an audit that has just ended.

    Raises FilesystemError.
    """
    audited = Audited(
        FORMAT_VERSION,
        int(time.time()),
        report.intact,
        report.files,
        report.size,
        len(report.findings),
        tuple(str(finding) for finding in report.findings[:_MOST]),
        report.manifest_sha256,
    )
    write_whole(path_of(layout), canonical.dumps(to_data(audited)), 0o644)


def load(layout: Layout) -> Audited:
    """The last answer; `finished` is 0 where there is none.

    Raises IntegrityError where the record is damaged, FilesystemError where it can't be read.
    """
    return statefile.load(
        path_of(layout),
        Audited(FORMAT_VERSION),
        "reading the last audit's answer",
        "nobody can tell what the last audit found",
        "run: bundlectl audit --record",
    )


def _ago(then: int, now: float | None) -> str:
    passed = int((time.time() if now is None else now) - then)
    for length, name in _UNITS:
        if passed >= 2 * length:
            return f"{passed // length} {name} ago"
    return "just now" if passed >= 0 else "by a clock that was ahead"
