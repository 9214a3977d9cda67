"""Audit a bundle's folder. Media are read once, front to back: a disc that has to seek is slow.

The digest of the archive and the digests of its members are computed from the same bytes, side by
side in two threads.
"""

import os
import re
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
from manifests.digests import BackgroundHasher, TeeReader, chunks, hash_file, sha256
from manifests.errors import BundleError, Damage, IntegrityError
from manifests.reader import BundleReader

#: The line of install.sh that names the manifest; see installer/install.sh.
EMBEDDED_DIGEST = re.compile(rb"^MANIFEST_SHA256=([0-9a-f]{64})$", re.MULTILINE)
INSTALLER_NAME = "install.sh"


def audit_media(folder: Path, progress: Progress = ignore_progress) -> Report:
    """Audit the list, what it does not list, and every member of the archive."""
    findings: list[Finding] = []
    try:
        listed = sums.parse((folder / sums.FILE_NAME).read_bytes())
    except IntegrityError as error:
        return Report(
            "media", str(folder), (), 0, 0, (Finding(ALTERED, sums.FILE_NAME, found=error.what),)
        )
    present = dict(tree.walk(folder))
    findings += _unlisted(present, listed)
    size, manifests = 0, set()
    for name, expected in listed.items():
        if name not in present:
            findings.append(Finding(MISSING, name, f"a file with sha256 {expected}"))
            continue
        if tree.kind_of(present[name]) != tree.FILE:
            continue  # _unlisted has named it
        size += present[name].stat().st_size
        try:
            if name.endswith(".tar"):
                found, manifest, inside = _audit_archive(folder / name, progress)
                findings += inside
                manifests.add(manifest)
            else:
                found = hash_file(folder / name)
        except OSError as error:
            findings.append(Finding(UNREADABLE, name, found=error.strerror or str(error)))
            continue
        if found != expected:
            findings.append(Finding(ALTERED, name, expected, found))
    findings += _embedded(folder / INSTALLER_NAME, manifests)
    digests = tuple(sorted(manifests - {""}))
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


def _audit_archive(path: Path, progress: Progress) -> tuple[str, str, list[Finding]]:
    """The archive's sha256, its manifest's, and what is wrong inside."""
    whole = BackgroundHasher(sha256())
    findings: list[Finding] = []
    manifest_digest = ""

    def note(error: BundleError) -> None:
        if isinstance(error, Damage):
            finding = Finding(ALTERED, f"{path.name}: {error.path}", error.expected, error.found)
        else:
            finding = Finding(ALTERED, path.name, found=error.what)
        findings.append(finding)

    with path.open("rb", buffering=0) as raw:
        stream = TeeReader(raw, whole, progress)
        try:
            reader = BundleReader(stream)
            manifest_digest = reader.digest
            for member in reader.manifest.members:
                try:
                    with reader.member(member):
                        pass
                except Damage as damage:
                    note(damage)
            reader.finish()
        except BundleError as error:
            note(error)
        for _ in chunks(stream):
            pass  # bytes after the end count for the digest of the whole
    return whole.hexdigest(), manifest_digest, findings


def _embedded(installer: Path, manifests: set[str]) -> list[Finding]:
    """install.sh has to name the manifest that the archive holds."""
    try:
        match = EMBEDDED_DIGEST.search(installer.read_bytes())
    except OSError:
        match = None
    named = match[1].decode() if match else "no manifest"
    if manifests == {named}:
        return []
    found = ", ".join(sorted(manifests - {""})) or "no archive with one"
    return [Finding(ALTERED, "the manifest that install.sh names", named, found)]
