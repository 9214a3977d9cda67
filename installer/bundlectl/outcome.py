"""What a repair answers, after the work or instead of it."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from bundlectl.diagnosis import Diagnosis
from bundlectl.replace import DRAFT
from manifests.audit.report import EXTRA, Finding
from manifests.console import size
from manifests.reader import COPY_AGAIN
from manifests.records import to_data


@dataclass(frozen=True)
class Outcome:
    """What a repair did, or would do."""

    prefix: str
    release: str
    manifest_sha256: str
    mended: tuple[Finding, ...]
    removed: tuple[str, ...]
    left: tuple[Finding, ...]  # what is still wrong
    medium: tuple[str, ...]  # what is damaged on the medium itself
    read: int  # bytes of the members that were read; the most that would be
    dry_run: bool = False
    lacking: str = ""  # what a delta does not carry, and its base can't lend

    @property
    def intact(self) -> bool:
        """Whether an audit finds nothing any more."""
        return not self.left

    def as_record(self) -> dict[str, Any]:
        """The outcome as --json prints it."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        findings = {key: [to_data(item) for item in data[key]] for key in ("mended", "left")}
        lists = {key: list(data[key]) for key in ("removed", "medium")}
        return data | findings | lists | {"intact": self.intact}

    def text(self) -> str:
        """The outcome as a person reads it."""
        would = "would be " if self.dry_run else ""
        lines = [f"{would}mended: {finding}" for finding in self.mended]
        lines += [f"{would}removed: {path}" for path in self.removed]
        lines += [f"damaged on the medium: {text}" for text in self.medium]
        if self.medium:
            lines.append(f"  mend: {COPY_AGAIN}, then the same command again")
        lines += [self.lacking] if self.lacking else []
        lines += [f"left: {finding}" for finding in self.left]
        if any(finding.problem == EXTRA for finding in self.left):
            lines.append("  mend: look at what is extra; --remove-extra removes it")
        verdict = "intact" if self.intact else f"NOT intact: {len(self.left)} findings are left"
        done = f"{len(self.mended)} {would}mended, {size(self.read)} {would}read"
        lines.append(f"{verdict}: {self.prefix} ({done})")
        return "\n".join(lines)


def preview(diagnosis: Diagnosis, *, remove_extra: bool = False) -> Outcome:
    """What `mend` would do, should nothing come in its way."""
    subject = diagnosis.subject
    removed = [f for f in diagnosis.extra if remove_extra or is_draft(f)]
    return Outcome(
        prefix=str(subject.layout.prefix),
        release=subject.release,
        manifest_sha256=subject.digest,
        mended=diagnosis.mendable,
        removed=tuple(finding.path for finding in removed),
        left=(*(f for f in diagnosis.extra if f not in removed), *diagnosis.others),
        medium=(),
        read=sum(need.member.size for need in diagnosis.needs()),
        dry_run=True,
    )


def is_draft(finding: Finding) -> bool:
    """Whether a killed repair has left it."""
    return finding.path.rpartition("/")[2] == DRAFT
