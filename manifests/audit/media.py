"""Audit a bundle's folder. Media are read once, front to back: a disc that has to seek is slow.

The digests of the archive's files and those of its members are computed from the same bytes, side
by side in two threads.
"""

import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from manifests import sums, tree
from manifests.audit.report import (
    ALTERED,
    EXTRA,
    LINK,
    MISSING,
    UNREADABLE,
    Finding,
    Report,
)
from manifests.console import Progress, ignore_progress
from manifests.digests import CountingReader, chunks, hash_file
from manifests.errors import BundleError, Damage, IntegrityError
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader

#: The line of install.sh that names the manifest; see installer/install.sh.
EMBEDDED_DIGEST = re.compile(rb"^MANIFEST_SHA256=([0-9a-f]{64})$", re.MULTILINE)
INSTALLER_NAME = "install.sh"


def audit_media(folder: Path, progress: Progress = ignore_progress) -> Report:
    """Audit the list, what it does not list, and every member of the archive."""
    medium = Medium(folder)
    try:
        listed = medium.listed()
        pieces = medium.pieces()
    except IntegrityError as error:
        finding = Finding(ALTERED, sums.FILE_NAME, found=error.what)
        return Report("media", str(folder), (), 0, 0, (finding,))
    present = dict(tree.walk(folder))
    regular = {name for name, entry in present.items() if tree.kind_of(entry) == tree.FILE}
    findings = _unlisted(present, listed)
    findings += [
        Finding(MISSING, name, f"a file with sha256 {digest}")
        for name, digest in listed.items()
        if name not in present
    ]
    digest, archived = "", {piece.name for piece in pieces}
    if archived <= regular:
        digest, inside = _audit_archive(medium, progress)
        findings += inside
    apart = regular - archived if digest else regular  # what was not hashed on the way
    findings += _hash_each(folder, {n: d for n, d in listed.items() if n in apart})
    findings += _embedded(folder / INSTALLER_NAME, digest)
    size = sum(present[name].stat().st_size for name in listed if name in regular)
    digests = (digest,) if digest else ()
    return Report("media", str(folder), digests, len(listed), size, tuple(findings))


def _unlisted(present: dict[str, "os.DirEntry[str]"], listed: dict[str, str]) -> list[Finding]:
    findings = []
    for path, entry in present.items():
        kind = tree.kind_of(entry)
        if path not in listed and path not in sums.UNLISTED:
            findings.append(Finding(EXTRA, path, found=kind))
        elif kind != tree.FILE:
            findings.append(Finding(LINK, path, tree.FILE, kind))
    return findings


def _hash_each(folder: Path, listed: dict[str, str]) -> list[Finding]:
    findings = []
    for name, expected in listed.items():
        try:
            found = hash_file(folder / name)
        except OSError as error:
            findings.append(Finding(UNREADABLE, name, found=error.strerror or str(error)))
            continue
        if found != expected:
            findings.append(Finding(ALTERED, name, expected, found))
    return findings


def _audit_archive(medium: Medium, progress: Progress) -> tuple[str, list[Finding]]:
    """The manifest's sha256 and what is wrong; no digest where the archive can't be followed."""
    findings: list[Finding] = []

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
                digest = reader.digest
                _audit_members(reader, note)
            except IntegrityError as error:
                note(error)
            for _ in chunks(stream):
                pass  # bytes after the end count for the digests of the files
    except BundleError as error:
        note(error)
        digest = ""
    return digest, findings


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
        match = EMBEDDED_DIGEST.search(installer.read_bytes())
    except OSError:
        match = None
    named = match[1].decode() if match else "no manifest"
    if named == manifest:
        return []
    found = manifest or "no archive with one"
    return [Finding(ALTERED, "the manifest that install.sh names", named, found)]
