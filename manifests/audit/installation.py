"""Audit an installed tree, on all cores.

Nothing that was written at install time is believed: files that conda-unpack changed are turned
back into their packed bytes and compared with the manifest.
"""

import dataclasses
import stat
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from manifests import archive, bundle, overlay, placement, prefix, tree
from manifests.audit.report import (
    ALTERED,
    EXTRA,
    INSTALLATION,
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


@dataclass(frozen=True)
class Area:
    """A folder of an installation, and what the manifest says of it."""

    base: str  # below the prefix: "releases/ID", "models/NAME@REVISION"
    entries: tuple[tree.Entry, ...]
    installed_at: str = ""  # the path that conda-unpack wrote into files with a `rewrite`
    known: Mapping[str, bytes] = field(default_factory=dict)  # content that needs no medium


def areas(
    manifest: bundle.Manifest, digest: str, prefix: str, base: overlay.Base | None = None
) -> tuple[Area, ...]:
    """All folders of a release that was installed at `prefix`; models are shared by releases.

    `base` is what an overlay was put on; of no other release it is believed.
    """
    base = base if manifest.overlay is not None else None
    folder = f"{placement.RELEASES}/{bundle.release_id(manifest.name, digest)}"
    environment = f"{prefix}/{folder}/{placement.ENVIRONMENT}"
    made = () if base is None else overlay.generated(base)
    known = {f"{placement.ENVIRONMENT}/{entry.path}": content for entry, content in made}
    return (
        Area(folder, tuple(release_entries(manifest, digest, base)), environment, known),
        *(Area(part.folder, manifest.part_entries(part)) for part in manifest.parts()),
    )


def audit_installation(root: Path, progress: Progress = ignore_progress) -> Report:
    """Audit every complete release of an installation, and the models that they serve.

    Raises UsageError where no release is installed.
    """
    if not placement.installed_releases(root):
        raise UsageError(f"{root}: no release is installed", mend="install one: sh install.sh")
    return audit_releases(root, progress)


def audit_releases(
    root: Path, progress: Progress = ignore_progress, skip: Collection[str] = ()
) -> Report:
    """Audit all releases, without the areas whose bases are in `skip`."""
    findings: list[Finding] = []
    digests: list[str] = []
    risks: list[str] = []
    found: dict[str, Area] = {}
    for release in placement.installed_releases(root):
        base = f"{placement.RELEASES}/{release}"
        if base in skip:
            continue
        try:
            receipt = placement.load_receipt(placement.receipt_path(root, release))
            manifest, digest = placement.load_manifest(root, release)
        except (IntegrityError, UsageError, OSError) as error:
            findings.append(Finding(ALTERED, base, found=str(error)))
            found[base] = Area(base, ())
            continue
        digests.append(digest)
        risks += manifest.risks
        found |= {area.base: area for area in areas(manifest, digest, receipt.prefix, receipt.base)}
    looked_at = [area for area in found.values() if area.entries and area.base not in skip]
    for area in looked_at:
        findings += audit_area(root, area, progress)
    findings += _strangers(root, {*found, *skip})
    sizes = [entry.size for area in looked_at for entry in area.entries]
    return Report(
        INSTALLATION,
        str(root),
        tuple(digests),
        len(sizes),
        sum(sizes),
        tuple(findings),
        tuple(dict.fromkeys(risks)),  # models are shared by releases
    )


def audit_area(root: Path, area: Area, progress: Progress = ignore_progress) -> list[Finding]:
    """Compare one folder of the installation at `root` with its listing."""
    return audit_tree(root / area.base, area.entries, area.installed_at, area.base, progress)


def _strangers(root: Path, known: set[str]) -> list[Finding]:
    """Folders beside the releases and models; those that come or go are bundlectl's business."""
    return [
        Finding(EXTRA, f"{area}/{name}", found="not named by any receipt")
        for area in (placement.RELEASES, placement.MODELS)
        if (root / area).is_dir()
        for name in sorted(path.name for path in (root / area).iterdir())
        if f"{area}/{name}" not in known and not name.endswith((placement.PARTIAL, placement.TRASH))
    ]


def release_entries(
    manifest: bundle.Manifest, digest: str, base: overlay.Base | None = None
) -> list[tree.Entry]:
    """Everything that lies in a release's folder; `base` is what an overlay was put on."""
    environment = manifest.environment
    if base is not None:
        environment = overlay.installed(environment, base)
    entries = [tree.Entry(archive.MANIFEST_NAME, size=len(manifest.dump()), sha256=digest)]
    entries += bundle.with_folders(
        tree.Entry(member.path, size=member.size, sha256=member.sha256)
        for member in manifest.of_role(bundle.DOCUMENT)
    )
    for folder, below in (
        (placement.ENVIRONMENT, environment),
        (placement.RUNTIME, manifest.runtime),
    ):
        entries += [tree.Entry(folder, tree.FOLDER)] if below else []
        entries += [dataclasses.replace(entry, path=f"{folder}/{entry.path}") for entry in below]
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
        finding = check_entry(root / entry.path, entry, installed_at)
        progress(entry.size)
        return finding

    with ThreadPoolExecutor(workers()) as pool:
        findings = [finding for finding in pool.map(check, entries) if finding]
    findings += extras(root, entries, {finding.path for finding in findings})
    start = f"{label}/" if label else ""
    return [dataclasses.replace(finding, path=start + finding.path) for finding in findings]


def extras(root: Path, entries: Sequence[tree.Entry], told: Collection[str] = ()) -> list[Finding]:
    """What lies in a folder and is not listed; folders that can't be read, but for those `told`."""
    if not root.is_dir():
        return []
    findings: list[Finding] = []

    def closed(path: str, error: OSError) -> None:
        if path not in told:
            findings.append(Finding(UNREADABLE, path, found=error.strerror or str(error)))

    known = {entry.path for entry in entries}
    findings += [
        Finding(EXTRA, path, found=tree.kind_of(entry))
        for path, entry in tree.walk(root, closed)
        if path not in known
    ]
    return findings


def check_entry(path: Path, entry: tree.Entry, installed_at: str = "") -> Finding | None:
    """Compare what lies at a path with its entry; None where nothing differs."""
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
