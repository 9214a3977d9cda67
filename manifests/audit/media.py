"""Audit a bundle's folder. Media are read once, front to back: a disc that has to seek is slow.

The digests of the archive's files and those of its members are computed from the same bytes, side
by side in two threads.
"""

import os
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from pathlib import Path

from manifests import archive, regular, sums, tree
from manifests.audit.report import (
    ALTERED,
    EXTRA,
    LINK,
    MISSING,
    UNREADABLE,
    Finding,
    Report,
)
from manifests.bundle import digest_of
from manifests.console import Progress, ignore_progress
from manifests.digests import CountingReader, chunks, hash_file
from manifests.errors import BundleError, Damage, IntegrityError
from manifests.medium import (
    EMBEDDED_DIGEST,
    INSTALLER,
    ArchiveStream,
    Medium,
    Piece,
    archive_of,
)
from manifests.parity.names import RESTORER, is_spare
from manifests.reader import BundleReader
from manifests.volumes import parse_label


def audit_media(
    folder: Path, progress: Progress = ignore_progress, others: tuple[Path, ...] = ()
) -> Report:
    """Audit the list, what it does not list, and every member of the archive.

    `others` are further folders with volumes; what else lies there is none of the bundle's.
    """
    medium = Medium(folder, tuple(other for other in dict.fromkeys(others) if other != folder))
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
    findings = _unlisted(present, listed)
    findings += [
        Finding(MISSING, name, f"a file with sha256 {digest}")
        for name, digest in listed.items()
        if name not in present and not places.get(name) and not spares.get(name)
    ]
    findings += _copied(folder, present, expected=RESTORER in listed)
    findings += _stale(medium, pieces)
    digest, archived = "", set(places)
    risks: tuple[str, ...] = ()
    if all(places.values()) and archived.isdisjoint(present.keys() - regular):
        digest, risks, inside = _audit_archive(medium, progress)
        findings += inside
        findings += _foreign(places, pieces, digest)
    # What was not hashed on the way: all that is no volume, and second copies of volumes.
    apart = {name: [folder / name] for name in regular & listed.keys() - archived}
    apart |= {name: found[1 if digest else 0 :] for name, found in places.items()}
    apart |= spares
    findings += _hash_each(medium, listed, apart)
    findings += _embedded(folder / INSTALLER, digest)
    covered = [folder / name for name in regular & listed.keys() - archived]
    covered += [path for found in places.values() for path in found]
    covered += [path for found in spares.values() for path in found if path not in covered]
    size = sum(path.stat().st_size for path in covered)
    digests = (digest,) if digest else ()
    return Report("media", str(folder), digests, len(listed), size, tuple(findings), risks)


def media_size(folder: Path, others: tuple[Path, ...] = ()) -> int:
    """Bytes that an audit of the archive reads, for a progress bar; 0 where that is not known."""
    try:
        medium = Medium(folder, others)
        return sum(path.stat().st_size for p in medium.pieces() for path in medium.places(p)[:1])
    except (BundleError, OSError):
        return 0


def _foreign(places: dict[str, list[Path]], pieces: list[Piece], manifest: str) -> list[Finding]:
    """Volumes that say they belong to another bundle: no installer takes them, listed or not."""
    findings = []
    for piece in pieces if manifest else ():
        if piece.label is None:
            continue
        with suppress(OSError, IntegrityError), places[piece.name][0].open("rb") as handle:
            named = parse_label(handle.read(archive.BLOCK), piece.name).manifest_sha256
            if named != manifest:
                what = f"{piece.name}: the bundle that it belongs to"
                findings.append(Finding(ALTERED, what, manifest, named))
    return findings


def _stale(medium: Medium, pieces: list[Piece]) -> list[Finding]:
    """Volumes in the other folders that the list does not name, and links in place of volumes."""
    known = {piece.name for piece in pieces}
    findings = []
    for folder in medium.others:
        for path in sorted(folder.iterdir()):
            if path.name in known and path.is_symlink():
                findings.append(Finding(LINK, str(path), tree.FILE, tree.LINK))
            elif path.name not in known and archive_of(path.name) == archive_of(pieces[0].name):
                findings.append(Finding(EXTRA, str(path), found="a volume that is not listed"))
    return findings


def _unlisted(present: dict[str, "os.DirEntry[str]"], listed: dict[str, str]) -> list[Finding]:
    findings = []
    for path, entry in present.items():
        kind = tree.kind_of(entry)
        if path not in listed and path not in sums.UNLISTED:
            findings.append(Finding(EXTRA, path, found=kind))
        elif kind != tree.FILE:
            findings.append(Finding(LINK, path, tree.FILE, kind))
    return findings


def _copied(folder: Path, present: Collection[str], *, expected: bool) -> list[Finding]:
    """The copy of the list that a bundle with parity has is the list."""
    if sums.COPY_NAME not in present:
        return [Finding(MISSING, sums.COPY_NAME, f"a copy of {sums.FILE_NAME}")] * expected
    try:
        data, copy = (regular.read(folder / name) for name in (sums.FILE_NAME, sums.COPY_NAME))
    except (OSError, Damage) as error:
        return [Finding(UNREADABLE, sums.COPY_NAME, found=str(error))]
    if data == copy:
        return []
    return [Finding(ALTERED, sums.COPY_NAME, digest_of(data), digest_of(copy))]


def _hash_each(
    medium: Medium, listed: dict[str, str], apart: dict[str, list[Path]]
) -> list[Finding]:
    findings = []
    for name, paths in apart.items():
        for path in paths:
            told = name if path.parent == medium.folder else str(path)
            try:
                found = hash_file(path)
            except OSError as error:
                findings.append(Finding(UNREADABLE, told, found=error.strerror or str(error)))
                continue
            if found != listed[name]:
                findings.append(Finding(ALTERED, told, listed[name], found))
    return findings


def _audit_archive(
    medium: Medium, progress: Progress
) -> tuple[str, tuple[str, ...], list[Finding]]:
    """The manifest's sha256, the risks it lists, and what is wrong.

    No digest where the archive can't be followed.
    """
    findings: list[Finding] = []
    risks: tuple[str, ...] = ()

    def note(error: BundleError) -> None:
        if isinstance(error, Damage):
            findings.append(Finding(ALTERED, error.path, error.expected, error.found))
        else:
            findings.append(Finding(ALTERED, "the archive", found=error.what))

    digest = ""
    try:
        with closing(ArchiveStream(medium, damaged=note)) as raw:
            stream = CountingReader(raw, progress)
            try:
                reader = BundleReader(stream)
                digest, risks = reader.digest, reader.manifest.risks
                _audit_members(reader, note)
            except IntegrityError as error:
                note(error)
            for _ in chunks(stream):
                pass  # bytes after the end count for the digests of the files
    except BundleError as error:
        note(error)
        digest = ""
    return digest, risks, findings


def _audit_members(reader: BundleReader, note: Callable[[BundleError], None]) -> None:
    for member in reader.manifest.members:
        try:
            with reader.member(member):
                pass
        except Damage as damage:
            note(damage)
    reader.finish()


def _embedded(installer: Path, manifest: str) -> list[Finding]:
    """install.sh has to name the manifest that the archive holds."""
    try:
        match = EMBEDDED_DIGEST.search(regular.read(installer))
    except (OSError, Damage):
        match = None
    named = match[1].decode() if match else "no manifest"
    if named == manifest:
        return []
    found = manifest or "no archive with one"
    return [Finding(ALTERED, "the manifest that install.sh names", named, found)]
