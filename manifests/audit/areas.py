"""What the papers of an installation say that there has to be."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from manifests import archive, bundle, overlay, placement, tree
from manifests.audit.report import ALTERED, Finding
from manifests.errors import IntegrityError, UsageError


@dataclass(frozen=True)
class Area:
    """A folder of an installation, and what the manifest says of it."""

    base: str  # below the prefix: "releases/ID", "models/NAME@REVISION"
    entries: tuple[tree.Entry, ...]
    installed_at: str = ""  # the path that conda-unpack wrote into files with a `rewrite`
    known: Mapping[str, bytes] = field(default_factory=dict)  # content that needs no medium

    def name(self, entry: tree.Entry) -> str:
        """An entry's path below the prefix."""
        return f"{self.base}/{entry.path}"


@dataclass(frozen=True)
class Survey:
    """What there is to audit, and what is wrong with the papers that say so."""

    areas: tuple[Area, ...]
    findings: tuple[Finding, ...]
    digests: tuple[str, ...]  # of the manifests
    risks: tuple[str, ...]

    def files(self) -> dict[str, tree.Entry]:
        """All listed files by their path below the prefix."""
        every = ((area.name(entry), entry) for area in self.areas for entry in area.entries)
        return {name: entry for name, entry in every if entry.kind == tree.FILE}


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


def releases(root: Path) -> list[str]:
    """The names of all complete releases.

    Raises OSError where their receipts can't be listed, which is not to read as "none".
    """
    if placement.is_installation(root):
        os.scandir(root / placement.RECEIPTS).close()
    return placement.installed_releases(root)


def survey(root: Path, skip: Collection[str] = ()) -> Survey:
    """Read the papers of all releases, but of the areas whose bases are in `skip`.

    Raises OSError where receipts can't be listed.
    """
    findings: list[Finding] = []
    digests: list[str] = []
    risks: list[str] = []
    found: dict[str, Area] = {}
    for release in releases(root):
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
    return Survey(
        tuple(area for area in found.values() if area.base not in skip),
        tuple(findings),
        tuple(digests),
        tuple(dict.fromkeys(risks)),  # models are shared by releases
    )
