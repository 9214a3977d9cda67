"""The checksum audit: whether every byte, name, mode and link is what the manifest says.

One engine for both sides. It collects findings and never stops at the first.
"""

from pathlib import Path

from manifests import placement, sums
from manifests.audit.installation import audit_installation
from manifests.audit.media import audit_media, media_size
from manifests.audit.report import Finding, Report, size_of
from manifests.console import Progress, ignore_progress
from manifests.errors import UsageError

__all__ = ["Finding", "Report", "audit", "audit_installation", "audit_media", "total"]


def audit(
    path: Path, progress: Progress = ignore_progress, volumes_in: tuple[Path, ...] = ()
) -> Report:
    """Audit a bundle's folder on the media, or an installation.

    `volumes_in` are further folders with volumes of the bundle. `progress` is called with the
    bytes done since its last call. Raises UsageError where `path` is neither, OSError where a
    listing can't be read.
    """
    if placement.is_installation(path):
        if volumes_in:
            raise UsageError(
                f"{path}: an installation has no volumes", mend="leave --volumes-in out"
            )
        return audit_installation(path, progress)
    if (path / sums.FILE_NAME).exists():
        return audit_media(path, progress, volumes_in)
    raise UsageError(
        f"{path}: neither a bundle nor an installation",
        why=f"a bundle's folder holds {sums.FILE_NAME}, an installation {placement.RECEIPTS}",
        mend="name the folder that `bundle create` wrote, or the prefix that install.sh used",
    )


def total(path: Path, volumes_in: tuple[Path, ...] = ()) -> int:
    """Bytes that an audit reads, for its progress bar.

    Raises OSError where a folder can't be listed.
    """
    return media_size(path, volumes_in) if volumes_in else size_of(path)
