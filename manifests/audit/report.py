"""What an audit answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import placement, tree
from manifests.audit.memory import Resumed
from manifests.audit.sampling import Sampled
from manifests.names import printable
from manifests.records import to_data

ALTERED, MISSING, EXTRA = "altered", "missing", "extra"
MODE, LINK, UNREADABLE = "mode", "link", "unreadable"
#: What each of them says.
PROBLEMS = {
    ALTERED: "The bytes are not those of the manifest",
    MISSING: "The manifest lists it, and it is not there",
    EXTRA: "It is there, and no list names it",
    MODE: "The permissions are not those of the manifest",
    LINK: "The link leads elsewhere, or it is another kind of file",
    UNREADABLE: "It can't be read",
}
INSTALLATION = "installation"
_UNHASHED = (
    "the archive's own digest in SHA256SUMS, or its volumes', was not compared: that takes all of "
    "its bytes"
)


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
    checked: int = 0  # files whose bytes were compared with a digest
    sample: Sampled | None = None  # what was read, where not all was
    resumed: Resumed | None = None  # what was not read again after an interruption

    @property
    def clean(self) -> bool:
        """Whether nothing differs in what was looked at: exit status 0."""
        return not self.findings

    @property
    def intact(self) -> bool:
        """Whether nothing differs, and everything was looked at."""
        return self.clean and self.sample is None

    @property
    def mend(self) -> str:
        """How to mend what was found; empty where there is nothing, or no way but another copy."""
        return placement.REPAIR if self.kind == INSTALLATION and not self.clean else ""

    @property
    def verdict(self) -> str:
        """The answer in a word or two."""
        if not self.clean:
            return f"NOT intact: {len(self.findings)} findings"
        return "intact" if self.sample is None else "sample intact"

    @property
    def unhashed(self) -> bool:
        """Whether the archive was not read whole, so that its own digest was not compared."""
        one = self.sample
        return self.kind != INSTALLATION and one is not None and one.files < one.of_files

    def limits(self) -> list[str]:
        """What the verdict doesn't rest on: lines, where something was left out."""
        lines = self.sample.lines() if self.sample is not None else []
        lines += [f"  {_UNHASHED}"] if self.unhashed else []
        return [*lines, *([self.resumed.line()] if self.resumed is not None else [])]

    def text(self) -> str:
        """The report as a person reads it."""
        lines = [str(finding) for finding in self.findings]
        lines += [f"can run code: {printable(risk)}" for risk in self.risks]
        what = f"{self.kind} {self.path}, {self.files} files, {self.size} bytes"
        lines.append(f"{self.verdict}: {what}")
        lines += self.limits()
        lines += [f"manifest sha256: {digest}" for digest in self.manifest_sha256]
        lines += [f"  mend: {self.mend}"] if self.mend else []
        return "\n".join(lines)

    def as_record(self) -> dict[str, Any]:
        """The report as --json prints it; `intact` is null where a sample is all that is known."""
        record = {
            "kind": self.kind,
            "path": self.path,
            "manifest_sha256": list(self.manifest_sha256),
            "files": self.files,
            "bytes": self.size,
            "checked": self.checked,
            "intact": None if self.clean and self.sample is not None else self.clean,
            "findings": [to_data(finding) for finding in self.findings],
            "risks": list(self.risks),
            "mend": self.mend,
        }
        if self.sample is not None:
            record["sample"] = self.sample.as_record()
        if self.resumed is not None:
            record["resumed"] = self.resumed.as_record()
        return record
