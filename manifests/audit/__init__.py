"""The checksum audit: whether every byte, name, mode and link is what the manifest says.

One engine for both sides. It collects findings and never stops at the first.
"""

from pathlib import Path

from manifests import placement, sums
from manifests.audit.installation import audit_installation
from manifests.audit.media import audit_media
from manifests.audit.report import Finding, Report
from manifests.console import Progress, ignore_progress
from manifests.errors import UsageError

__all__ = ["Finding", "Report", "audit", "audit_installation", "audit_media"]


def audit(path: Path, progress: Progress = ignore_progress) -> Report:
    """Audit a bundle's folder on the media, or an installation.

    `progress` is called with the bytes done since its last call. Raises UsageError where `path`
    is neither, OSError where its listing can't be read.
    """
    if placement.is_installation(path):
        return audit_installation(path, progress)
    if (path / sums.FILE_NAME).exists():
        return audit_media(path, progress)
    raise UsageError(
        f"{path}: neither a bundle nor an installation",
        why=f"a bundle's folder holds {sums.FILE_NAME}, an installation {placement.RECEIPTS}",
        mend="name the folder that `bundle create` wrote, or the prefix that install.sh used",
    )
