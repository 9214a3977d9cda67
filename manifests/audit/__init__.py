"""The checksum audit: whether every byte, name, mode and link is what the manifest says.

One engine for both sides. It collects findings and never stops at the first.
"""

from pathlib import Path

from manifests import placement, sums
from manifests.audit.answer import Answer, check_apart, check_outside
from manifests.audit.forms import FORMATS, LANGUAGES
from manifests.audit.how import How, how
from manifests.audit.installation import InstallationAudit, audit_installation, prepare_installation
from manifests.audit.media import MediaAudit, audit_media
from manifests.audit.report import Finding, Report
from manifests.console import Progress, ignore_progress
from manifests.errors import UsageError

__all__ = [
    "FORMATS",
    "LANGUAGES",
    "Answer",
    "Finding",
    "How",
    "Report",
    "audit",
    "audit_installation",
    "audit_media",
    "check_apart",
    "check_outside",
    "how",
    "prepare",
]


def prepare(
    path: Path,
    volumes_in: tuple[Path, ...] = (),
    how: How = How(),  # noqa: B008 - frozen
) -> InstallationAudit | MediaAudit:
    """An audit of a bundle's folder on the media, or of an installation; its `run` carries it out.

    `volumes_in` are further folders with volumes of the bundle. Raises UsageError where `path` is
    neither, or can't be audited in this way; OSError where a listing can't be read.
    """
    if placement.is_installation(path):
        if volumes_in:
            raise UsageError(
                f"{path}: an installation has no volumes", mend="leave --volumes-in out"
            )
        return prepare_installation(path, how)
    if (path / sums.FILE_NAME).exists():
        return MediaAudit(path, how, volumes_in)
    raise UsageError(
        f"{path}: neither a bundle nor an installation",
        why=f"a bundle's folder holds {sums.FILE_NAME}, an installation {placement.RECEIPTS}",
        mend="name the folder that `bundle create` wrote, or the prefix that install.sh used",
    )


def audit(
    path: Path, progress: Progress = ignore_progress, volumes_in: tuple[Path, ...] = ()
) -> Report:
    """Audit everything at once; `progress` hears of the bytes done since its last call.

    Raises as `prepare`.
    """
    return prepare(path, volumes_in).run(progress)
