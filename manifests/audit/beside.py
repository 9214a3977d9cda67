"""What can be wrong on a medium beside its files' bytes: names, links, what belongs to what."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from manifests import archive, regular, sums, tree
from manifests.audit.report import ALTERED, EXTRA, LINK, MISSING, UNREADABLE, Finding
from manifests.bundle import digest_of
from manifests.errors import Damage, IntegrityError
from manifests.medium import EMBEDDED_DIGEST, Medium, Piece, archive_of
from manifests.volumes import parse_label


def foreign(places: dict[str, list[Path]], pieces: list[Piece], manifest: str) -> list[Finding]:
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


def stale(medium: Medium, pieces: list[Piece]) -> list[Finding]:
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


def unlisted(present: dict[str, "os.DirEntry[str]"], listed: dict[str, str]) -> list[Finding]:
    """Names that the list does not have, and what is no regular file."""
    findings = []
    for path, entry in present.items():
        kind = tree.kind_of(entry)
        if path not in listed and path not in sums.UNLISTED:
            findings.append(Finding(EXTRA, path, found=kind))
        elif kind != tree.FILE:
            findings.append(Finding(LINK, path, tree.FILE, kind))
    return findings


def copied(folder: Path, present: Collection[str], *, expected: bool) -> list[Finding]:
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


def embedded(installer: Path, manifest: str) -> list[Finding]:
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
