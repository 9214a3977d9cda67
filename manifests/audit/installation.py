"""Audit an installed tree, on all cores.

Nothing that was written at install time is believed: files that conda-unpack changed are turned
back into their packed bytes and compared with the manifest.
"""

import dataclasses
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from manifests import archive, bundle, placement, prefix, tree
from manifests.audit.report import (
    ALTERED,
    EXTRA,
    LINK,
    MISSING,
    MODE,
    UNREADABLE,
    Finding,
    Report,
)
from manifests.console import Progress, ignore_progress
from manifests.digests import hash_file, workers
from manifests.errors import IntegrityError, UsageError


def audit_installation(root: Path, progress: Progress = ignore_progress) -> Report:
    """Audit every complete release of an installation, and the models that they serve.

    Raises UsageError where no release is installed.
    """
    releases = placement.installed_releases(root)
    if not releases:
        raise UsageError(f"{root}: no release is installed", mend="install one: sh install.sh")
    findings: list[Finding] = []
    digests: list[str] = []
    trees: dict[str, tuple[Sequence[tree.Entry], str]] = {}
    for release in releases:
        base = f"{placement.RELEASES}/{release}"
        try:
            receipt = placement.load_receipt(placement.receipt_path(root, release))
            manifest, digest = placement.load_manifest(root, release)
        except (IntegrityError, UsageError, OSError) as error:
            findings.append(Finding(ALTERED, base, found=str(error)))
            trees[base] = ((), "")
            continue
        digests.append(digest)
        trees[base] = (
            release_entries(manifest, digest),
            f"{receipt.prefix}/{base}/{placement.ENVIRONMENT}",
        )
        trees[manifest.model_folder()] = (bundle.model_entries(manifest), "")
    for base, (entries, installed_at) in trees.items():
        if entries:
            findings += audit_tree(root / base, entries, installed_at, base, progress)
    findings += _strangers(root, set(trees))
    sizes = [entry.size for entries, _ in trees.values() for entry in entries]
    return Report(
        "installation", str(root), tuple(digests), len(sizes), sum(sizes), tuple(findings)
    )


def _strangers(root: Path, known: set[str]) -> list[Finding]:
    """Folders beside the releases and models; unfinished ones are an installer's business."""
    return [
        Finding(EXTRA, f"{area}/{name}", found="not named by any receipt")
        for area in (placement.RELEASES, placement.MODELS)
        if (root / area).is_dir()
        for name in sorted(path.name for path in (root / area).iterdir())
        if f"{area}/{name}" not in known and not name.endswith(placement.PARTIAL)
    ]


def release_entries(manifest: bundle.Manifest, digest: str) -> list[tree.Entry]:
    """Everything that lies in a release's folder."""
    entries = [tree.Entry(archive.MANIFEST_NAME, size=len(manifest.dump()), sha256=digest)]
    entries += [
        tree.Entry(member.path, size=member.size, sha256=member.sha256)
        for member in manifest.of_role(bundle.DOCUMENT)
    ]
    for base, below in (
        (placement.ENVIRONMENT, manifest.environment),
        (placement.RUNTIME, manifest.runtime),
    ):
        entries.append(tree.Entry(base, tree.FOLDER))
        entries += [dataclasses.replace(entry, path=f"{base}/{entry.path}") for entry in below]
    return entries


def audit_tree(
    root: Path,
    entries: Sequence[tree.Entry],
    installed_at: str = "",
    label: str = "",
    progress: Progress = ignore_progress,
) -> list[Finding]:
    """Compare a folder with its listing.

    `installed_at` is the path that conda-unpack wrote into the files with a `rewrite`; `label`
    starts the paths of the findings.
    """

    def check(entry: tree.Entry) -> Finding | None:
        finding = _check_entry(root / entry.path, entry, installed_at)
        progress(entry.size)
        return finding

    with ThreadPoolExecutor(workers()) as pool:
        findings = [finding for finding in pool.map(check, entries) if finding]
    known = {entry.path for entry in entries}
    if root.is_dir():
        findings += [
            Finding(EXTRA, path, found=tree.kind_of(entry))
            for path, entry in tree.walk(root)
            if path not in known
        ]
    start = f"{label}/" if label else ""
    return [dataclasses.replace(finding, path=start + finding.path) for finding in findings]


def _check_entry(path: Path, entry: tree.Entry, installed_at: str) -> Finding | None:
    try:
        status = path.lstat()
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        if kind != entry.kind:
            problem = LINK if tree.LINK in (kind, entry.kind) else ALTERED
            return Finding(problem, entry.path, entry.kind, kind)
        if kind == tree.LINK:
            target = str(path.readlink())
            same = target == entry.target
            return None if same else Finding(LINK, entry.path, entry.target, target)
        mode = stat.S_IMODE(status.st_mode)
        if mode != entry.mode():
            return Finding(MODE, entry.path, f"{entry.mode():04o}", f"{mode:04o}")
        if kind == tree.FOLDER:
            return None
        return _check_bytes(path, entry, installed_at, status.st_size)
    except FileNotFoundError:
        return Finding(MISSING, entry.path, entry.kind)
    except OSError as error:
        return Finding(UNREADABLE, entry.path, found=error.strerror or str(error))


_KINDS = {stat.S_IFREG: tree.FILE, stat.S_IFLNK: tree.LINK, stat.S_IFDIR: tree.FOLDER}


def _check_bytes(path: Path, entry: tree.Entry, installed_at: str, size: int) -> Finding | None:
    if entry.rewrite is not None:
        most = prefix.longest(entry.size, entry.rewrite, installed_at)
        if size > most:
            return Finding(ALTERED, entry.path, f"{most} bytes at the most", f"{size} bytes")
        found = _packed_digest(path.read_bytes(), entry, installed_at)
    elif size != entry.size:
        # Length before hash: a short file need not be read to be known as wrong.
        return Finding(ALTERED, entry.path, f"{entry.size} bytes", f"{size} bytes")
    else:
        found = hash_file(path)
    return None if found == entry.sha256 else Finding(ALTERED, entry.path, entry.sha256, found)


def _packed_digest(data: bytes, entry: tree.Entry, installed_at: str) -> str:
    """sha256 of what a volatile file was when it was packed; conda-unpack may not have run yet."""
    as_it_is = bundle.digest_of(data)
    if as_it_is == entry.sha256 or entry.rewrite is None:
        return as_it_is
    try:
        return bundle.digest_of(prefix.restore(data, entry.rewrite, installed_at))
    except IntegrityError:
        return as_it_is
