"""What an audit answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import placement, tree
from manifests.names import printable
from manifests.records import to_data

ALTERED, MISSING, EXTRA = "altered", "missing", "extra"
MODE, LINK, UNREADABLE = "mode", "link", "unreadable"
INSTALLATION = "installation"


def size_of(path: Path) -> int:
    """Bytes that an audit of a folder reads, for its progress bar.

    Raises OSError where it can't be listed.
    """
    folders = [path]
    if placement.is_installation(path):  # the rest of it may be closed to this account
        folders = [path / placement.RELEASES, path / placement.MODELS]
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for folder in folders
        for _, entry in tree.walk(folder)
        if entry.is_file(follow_symlinks=False)
    )


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
        return printable(text)


@dataclass(frozen=True)
class Report:
    """The answer of one audit. The manifest digests are to be compared with those on paper."""

    kind: str  # "media" or INSTALLATION
    path: str
    manifest_sha256: tuple[str, ...]
    files: int
    size: int  # bytes covered
    findings: tuple[Finding, ...]
    risks: tuple[str, ...] = ()  # files of models that can run code; allowed when it was made

    @property
    def intact(self) -> bool:
        """Whether nothing differs."""
        return not self.findings

    @property
    def mend(self) -> str:
        """How to mend what was found; empty where there is nothing, or no way but another copy."""
        return placement.REPAIR if self.kind == INSTALLATION and not self.intact else ""

    def text(self) -> str:
        """The report as a person reads it."""
        lines = [str(finding) for finding in self.findings]
        verdict = "intact" if self.intact else f"NOT intact: {len(lines)} findings"
        lines += [f"can run code: {printable(risk)}" for risk in self.risks]
        lines.append(f"{verdict}: {self.kind} {self.path}, {self.files} files, {self.size} bytes")
        lines += [f"manifest sha256: {digest}" for digest in self.manifest_sha256]
        lines += [f"  mend: {self.mend}"] if self.mend else []
        return "\n".join(lines)

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
            "risks": list(self.risks),
            "mend": self.mend,
        }
