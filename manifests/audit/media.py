"""Audit a bundle's folder. Media are read once, front to back: a disc that has to seek is slow.

The digests of the archive's files and those of its members are computed from the same bytes, side
by side in two threads.
"""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from manifests import archive, sums, tree
from manifests.audit import beside
from manifests.audit.how import How
from manifests.audit.reading import Paced, Reading
from manifests.audit.report import (
    ALTERED,
    MISSING,
    UNREADABLE,
    Finding,
    Report,
)
from manifests.audit.sampling import Sampled
from manifests.bundle import Member
from manifests.console import Progress, ignore_progress
from manifests.digests import chunks
from manifests.errors import BundleError, Damage, IntegrityError, UsageError
from manifests.medium import (
    INSTALLER,
    ArchiveStream,
    Medium,
)
from manifests.parity.names import RESTORER, is_spare
from manifests.reader import BundleReader


class MediaAudit:
    """An audit of the list, what it does not list, and every member of the archive, or a sample.

    A sample is drawn among whatever has a digest of its own: the archive's members, parity, and
    second copies of volumes. List, installer and manifest are always read in full.
    """

    def __init__(self, folder: Path, how: How = How(), others: tuple[Path, ...] = ()) -> None:  # noqa: B008 - frozen
        """Raises UsageError for what only makes sense in an installation."""
        _refuse(how)
        self.folder, self.how = folder, how
        self.others = tuple(other for other in dict.fromkeys(others) if other != folder)

    @property
    def size(self) -> int:
        """Bytes that are to be read, for a progress bar; 0 where that is not known."""
        medium = Medium(self.folder, self.others)
        try:
            if self.how.sample is None:
                labels = sum(piece.label is not None for piece in medium.pieces())
                listed = (path for name in medium.listed() for path in medium.files(name))
                return sum(path.stat().st_size for path in listed) - labels * archive.BLOCK
            with closing(ArchiveStream(medium)) as raw:
                members = BundleReader(raw).manifest.members
            units = _units(medium, members)
            return sum(units[name] for name in self.how.sample.draw(units))
        except (BundleError, OSError):
            return 0

    def run(self, progress: Progress = ignore_progress) -> Report:
        """Audit all of it."""
        return _Pass(self, Reading(progress, self.how.rate)).report()


def _refuse(how: How) -> None:
    if how.jobs:
        raise UsageError(
            "--jobs is for an installation",
            why="a medium is read once, front to back: two threads hash what one reads",
            mend="leave it out",
        )
    if how.resume is not None:
        raise UsageError(
            "--resume is for an installation",
            why="nothing tells a disc from another copy of it, and an archive's one digest needs a "
            "whole pass",
            mend="leave it out; where time is short: --sample 10%",
        )


def audit_media(
    folder: Path, progress: Progress = ignore_progress, others: tuple[Path, ...] = ()
) -> Report:
    """Audit the list, what it does not list, and every member of the archive.

    `others` are further folders with volumes; what else lies there is none of the bundle's.
    """
    return MediaAudit(folder, others=others).run(progress)


def _units(medium: Medium, members: Iterable[Member]) -> dict[str, int]:
    """Whatever of a medium a sample is drawn among → its bytes."""
    archived = {piece.name for piece in medium.pieces()}
    units = {member.path: member.size for member in members if member.size}
    for name in medium.listed():
        paths = medium.files(name)
        apart = paths[1:] if name in archived else paths if is_spare(name) else []
        units |= {_told(medium, path): path.stat().st_size for path in apart}
    return units


def _told(medium: Medium, path: Path) -> str:
    """What a file is called in findings."""
    return path.name if path.parent == medium.folder else str(path)


class _Pass:
    """One pass over a medium."""

    def __init__(self, audit: MediaAudit, reading: Reading) -> None:
        self.medium = Medium(audit.folder, audit.others)
        self.folder, self.sample, self.reading = audit.folder, audit.how.sample, reading
        self.findings: list[Finding] = []
        self.digest = ""  # of the manifest, where the archive can be followed
        self.risks: tuple[str, ...] = ()
        self.units: dict[str, int] = {}
        self.drawn: frozenset[str] | None = None  # None: everything

    def report(self) -> Report:
        """Audit, and tell."""
        folder, medium = self.folder, self.medium
        try:
            listed = medium.listed()
            pieces = medium.pieces()
        except IntegrityError as error:
            finding = Finding(ALTERED, sums.FILE_NAME, found=error.what)
            return Report("media", str(folder), (), 0, 0, (finding,))
        present = dict(tree.walk(folder))
        regular = {name for name, entry in present.items() if tree.kind_of(entry) == tree.FILE}
        places = {piece.name: medium.places(piece) for piece in pieces}
        spares = {name: medium.files(name) for name in listed if is_spare(name)}
        findings = self.findings
        findings += beside.unlisted(present, listed)
        findings += [
            Finding(MISSING, name, f"a file with sha256 {digest}")
            for name, digest in listed.items()
            if name not in present and not places.get(name) and not spares.get(name)
        ]
        findings += beside.copied(folder, present, expected=RESTORER in listed)
        findings += beside.stale(medium, pieces)
        archived = set(places)
        if all(places.values()) and archived.isdisjoint(present.keys() - regular):
            self._archive()
            findings += beside.foreign(places, pieces, self.digest)
        # What was not hashed on the way: all that is no volume, and second copies of volumes.
        apart = {name: [folder / name] for name in regular & listed.keys() - archived}
        apart |= {name: found[1 if self.digest else 0 :] for name, found in places.items()}
        apart |= spares
        self._hash_each(listed, apart)
        findings += beside.embedded(folder / INSTALLER, self.digest)
        covered = [folder / name for name in regular & listed.keys() - archived]
        covered += [path for found in places.values() for path in found]
        covered += [path for found in spares.values() for path in found if path not in covered]
        return Report(
            "media",
            str(folder),
            (self.digest,) if self.digest else (),
            len(listed),
            sum(path.stat().st_size for path in covered),
            tuple(findings),
            self.risks,
            len(listed) if self.sample is None else len(self.drawn or ()),
            self._sampled(),
        )

    def _sampled(self) -> Sampled | None:
        if self.sample is None:
            return None
        drawn = self.drawn or frozenset()
        size = sum(self.units[name] for name in drawn)
        total = sum(self.units.values())
        return Sampled(self.sample.seed, len(drawn), len(self.units), size, total)

    def _note(self, error: BundleError) -> None:
        if isinstance(error, Damage):
            self.findings.append(Finding(ALTERED, error.path, error.expected, error.found))
        else:
            self.findings.append(Finding(ALTERED, "the archive", found=error.what))

    def _archive(self) -> None:
        """The members; no digest where the archive can't be followed."""
        try:
            with closing(ArchiveStream(self.medium, damaged=self._note)) as raw:
                stream = Paced(raw, self.reading)
                try:
                    reader = BundleReader(stream)
                    self.digest, self.risks = reader.digest, reader.manifest.risks
                    self._draw(reader)
                    self._members(reader)
                except IntegrityError as error:
                    self._note(error)
                for _ in chunks(stream):
                    pass  # bytes after the end count for the digests of the files
        except BundleError as error:
            self._note(error)
            self.digest = ""

    def _draw(self, reader: BundleReader) -> None:
        if self.sample is None:
            return
        self.units = _units(self.medium, reader.manifest.members)
        self.drawn = self.sample.draw(self.units)
        # What is passed over must be there, at least.
        self.medium.check_lengths(reader.manifest.archive_length(len(reader.data)))

    def _is_drawn(self, name: str) -> bool:
        return self.drawn is None or name in self.drawn or name not in self.units

    def _members(self, reader: BundleReader) -> None:
        for member in reader.manifest.members:
            way = reader.member if self._is_drawn(member.path) else reader.excerpt
            try:
                with way(member):
                    pass
            except Damage as damage:
                self._note(damage)
        reader.finish()

    def _hash_each(self, listed: dict[str, str], apart: dict[str, list[Path]]) -> None:
        for name, paths in apart.items():
            for path in paths:
                told = _told(self.medium, path)
                if not self._is_drawn(told):
                    continue
                try:
                    found = self.reading.digest(path, self.reading.passed)
                except OSError as error:
                    problem = error.strerror or str(error)
                    self.findings.append(Finding(UNREADABLE, told, found=problem))
                    continue
                if found != listed[name]:
                    self.findings.append(Finding(ALTERED, told, listed[name], found))
