"""What is wrong with an installed release, and what of that its medium can mend.

The receipt says which bundle was installed, and only that very bundle is taken.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bundlectl.install import launcher
from bundlectl.layout import Layout
from bundlectl.mending import Suspect, Wanted, wanted
from manifests import bundle, placement, tree
from manifests.audit.installation import Area, areas, audit_area, audit_releases, check_entry
from manifests.audit.report import ALTERED, EXTRA, MISSING, MODE, Finding
from manifests.errors import IntegrityError, UsageError
from manifests.medium import ArchiveStream, Medium, NextMedium, no_other_medium
from manifests.reader import BundleReader

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Subject:
    """The release that a medium holds, as it is installed here."""

    layout: Layout
    manifest: bundle.Manifest
    data: bytes  # the manifest's
    digest: str  # of them
    receipt: placement.Receipt | None  # None where it is missing or damaged
    areas: tuple[Area, ...]
    carried: bundle.Manifest  # what the medium holds: the same, or a delta of it
    carried_digest: str

    @property
    def release(self) -> str:
        """The name of its folder."""
        return bundle.release_id(self.manifest.name, self.digest)

    def command_text(self) -> bytes:
        """What `bin/bundlectl` has to be."""
        named = self.receipt.prefix if self.receipt is not None else str(self.layout.prefix)
        return launcher(Layout(Path(named)))

    def size(self) -> int:
        """Bytes that an audit of it reads."""
        return sum(entry.size for area in self.areas for entry in area.entries)


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with an installation. Paths are relative to the prefix."""

    subject: Subject
    wrong: tuple[Finding, ...]  # of the release and its models: the medium mends it
    papers: tuple[Finding, ...]  # the receipt and the command: made again
    extra: tuple[Finding, ...]  # what lies among it and is not listed
    others: tuple[Finding, ...]  # what is none of this bundle's

    @property
    def mendable(self) -> tuple[Finding, ...]:
        """Everything that a repair sets right."""
        return (*self.wrong, *self.papers)

    def needs(self) -> list[Wanted]:
        """What the medium is read for, at the most."""
        paths = {finding.path for finding in self.wrong if finding.problem != MODE}
        files = [
            Suspect(area, entry)
            for area in self.subject.areas
            for entry in area.entries
            if entry.kind == tree.FILE and f"{area.base}/{entry.path}" in paths
        ]
        return wanted(self.subject.carried, self.subject.release, files)


def identify(
    medium: Medium,
    layout: Layout,
    *,
    checked: bool,
    next_medium: NextMedium = no_other_medium,
) -> Subject:
    """Find the release that the medium holds among those that are installed.

    `checked` says that install.sh named the manifest, so that a receipt that is lost can be made
    again. Raises UsageError where it is not installed, IntegrityError where that can't be told.
    """
    with contextlib.closing(ArchiveStream(medium, next_medium)) as stream:
        reader = BundleReader(stream, medium.manifest_sha256)
    whole = reader.whole
    manifest, digest, release = whole.manifest, whole.digest, whole.release
    path = placement.receipt_path(layout.prefix, release)
    if not (path.exists() or layout.release(release).is_dir()):
        raise _another(layout, manifest.name, digest)
    receipt = _receipt(layout, manifest, digest)
    if receipt is None and not checked:
        raise IntegrityError(
            f"{path}: missing, or not the receipt of this installation",
            why="without it a medium can't be compared with what was installed",
            mend=f"run: sh '{medium.folder}/install.sh' repair --prefix '{layout.prefix}', "
            "which can check the medium's signature",
        )
    if manifest.overlay is not None and (receipt is None or receipt.base is None):
        raise IntegrityError(
            f"{path}: missing, or not the receipt of this installation",
            why="without it nobody knows which Python environment the overlay was put on",
            mend=f"run: sh '{medium.folder}/install.sh' --prefix '{layout.prefix}' --no-start "
            "--into-python PATH; then the same command again",
        )
    prefix = receipt.prefix if receipt is not None else str(layout.prefix)
    base = receipt.base if receipt is not None else None
    found = areas(manifest, digest, prefix, base)
    carried = (reader.manifest, reader.digest)
    return Subject(layout, manifest, whole.data, digest, receipt, found, *carried)


def _receipt(layout: Layout, manifest: bundle.Manifest, digest: str) -> placement.Receipt | None:
    """The release's receipt, if it is sound.

    Raises UsageError where it is, and the installation lies elsewhere than it says.
    """
    release = bundle.release_id(manifest.name, digest)
    try:
        receipt = placement.load_receipt(placement.receipt_path(layout.prefix, release))
    except (OSError, ValueError, IntegrityError):
        return None
    if (receipt.release, receipt.manifest_sha256) != (release, digest):
        return None
    if _is_same(receipt.prefix, layout.prefix):
        return receipt
    here, there = (
        _named(layout, manifest, digest, prefix) for prefix in (str(layout.prefix), receipt.prefix)
    )
    if here >= there:  # the files don't agree with the receipt: it was altered
        return None
    raise UsageError(
        f"{layout.prefix}: was installed as {receipt.prefix}, and its files name that path",
        why="it was moved, or is mounted elsewhere",
        mend="move or mount it where it was, or install the bundle anew at this place",
    )


def _is_same(one: str, other: Path) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def _named(layout: Layout, manifest: bundle.Manifest, digest: str, prefix: str) -> int:
    """How many files are what conda-unpack makes of them below a prefix."""
    release = areas(manifest, digest, prefix)[0]
    folder = layout.prefix / release.base
    return sum(
        check_entry(folder / entry.path, entry, release.installed_at) is None
        for entry in release.entries
        if entry.rewrite is not None
    )


def _another(layout: Layout, name: str, digest: str) -> UsageError:
    found = []
    for release in placement.installed_releases(layout.prefix):
        try:
            receipt = placement.load_receipt(placement.receipt_path(layout.prefix, release))
            found.append(f"{release} (manifest {receipt.manifest_sha256})")
        except (OSError, IntegrityError):
            found.append(f"{release} (its receipt is damaged)")
    return UsageError(
        f"the medium holds {name} (manifest {digest}), which is not installed in {layout.prefix}",
        why=f"installed: {', '.join(found) or 'nothing'}",
        mend="take the medium of the release that is damaged, or install this one: sh install.sh",
    )


def examine(subject: Subject, progress: Progress) -> Diagnosis:
    """Audit the whole installation. Writes nothing.

    `progress` hears of the bytes of this release and its models.

    Raises OSError.
    """
    root = subject.layout.prefix
    findings = [finding for area in subject.areas for finding in audit_area(root, area, progress)]
    own = {area.base for area in subject.areas}
    others = audit_releases(root, skip=own).findings
    return Diagnosis(
        subject,
        wrong=tuple(finding for finding in findings if finding.problem != EXTRA),
        papers=tuple(_papers(subject)),
        extra=tuple(finding for finding in findings if finding.problem == EXTRA),
        others=others,
    )


def _papers(subject: Subject) -> list[Finding]:
    """What lies outside of all releases and is needed to use them."""
    root, findings = subject.layout.prefix, []
    if subject.receipt is None:
        path = placement.receipt_path(root, subject.release)
        problem = ALTERED if path.exists() else MISSING
        findings.append(Finding(problem, str(path.relative_to(root)), "the release's receipt"))
    command = subject.layout.command
    text = subject.command_text()
    entry = tree.Entry(
        str(command.relative_to(root)),
        size=len(text),
        sha256=bundle.digest_of(text),
        executable=True,
    )
    found = check_entry(command, entry)
    return [*findings, found] if found else findings
