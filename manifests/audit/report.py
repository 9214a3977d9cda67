"""What an audit answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manifests.records import to_data

Progress = Callable[[int], None]

ALTERED, MISSING, EXTRA = "altered", "missing", "extra"
MODE, LINK, UNREADABLE = "mode", "link", "unreadable"


def ignore_progress(_count: int) -> None:
    """The progress of somebody who does not watch."""


@dataclass(frozen=True)
class Finding:
    """One difference. `path` is relative to what was audited."""

    problem: str
    path: str
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        text = f"{self.problem}: {self.path}"
        if self.expected or self.found:
            text += f" (expected {self.expected or 'nothing'}, found {self.found or 'nothing'})"
        return text


@dataclass(frozen=True)
class Report:
    """The answer of one audit. The manifest digests are to be compared with those on paper."""

    kind: str  # "media" or "installation"
    path: str
    manifest_sha256: tuple[str, ...]
    files: int
    size: int  # bytes covered
    findings: tuple[Finding, ...]

    @property
    def intact(self) -> bool:
        """Whether nothing differs."""
        return not self.findings

    def as_record(self) -> dict[str, Any]:
        """The report as --json prints it."""
        return {
            "kind": self.kind,
            "path": self.path,
            "manifest_sha256": list(self.manifest_sha256),
            "files": self.files,
            "bytes": self.size,
            "intact": self.intact,
            "findings": [to_data(finding) for finding in self.findings],
        }
