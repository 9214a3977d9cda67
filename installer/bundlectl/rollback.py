"""Back to what served before. The server is proved as at any switch; see bundlectl.service."""

from dataclasses import dataclass

from bundlectl import history, models
from bundlectl.layout import Layout
from bundlectl.models import Installed
from manifests import placement
from manifests.audit.installation import areas, audit_area
from manifests.console import Progress
from manifests.errors import IntegrityError, UsageError

#: Findings of a full audit that are shown; `bundlectl audit` shows them all.
_SHOWN = 10


@dataclass(frozen=True)
class Target:
    """A release and the model that it is to serve."""

    release: str
    model: Installed


def find(layout: Layout, release: str = "") -> Target:
    """What served last and does not serve now; or a release, with the model that it serves.

    Raises UsageError where nothing served before, or what did was removed; IntegrityError where the
    papers of the release are damaged.
    """
    if release:
        return Target(release, models.to_serve(layout, release))
    served = history.before(layout)
    if served is None:
        raise UsageError(
            f"the instance {layout.called} has served nothing else before",
            mend="name a release with --to (see: bundlectl releases), or a model: bundlectl use",
        )
    for name in (served.release, served.bundle):
        if name not in placement.installed_releases(layout.prefix):
            raise UsageError(
                f"{served.model} of {served.release} served before, and {name} was removed",
                mend="install its bundle again, or name another release with --to "
                "(see: bundlectl releases)",
            )
    placement.load_manifest(layout.prefix, served.release)
    brought, _ = placement.load_manifest(layout.prefix, served.bundle)
    named = (m for m in models.of_bundle(served.bundle, brought) if m.name == served.model)
    model = next(named, None)
    if model is None:
        raise IntegrityError(
            f"{history.path_of(layout)}: {served.bundle} has no model {served.model}",
            mend="name a release with --to (see: bundlectl releases)",
        )
    return Target(served.release, model)


def size(layout: Layout, target: Target) -> int:
    """Bytes that `audit` reads."""
    release, digest = placement.load_manifest(layout.prefix, target.release)
    entries = areas(release, digest, "")[0].entries
    served = (e for part in target.model.parts for e in target.model.manifest.part_entries(part))
    return sum(entry.size for entry in (*entries, *served))


def audit(layout: Layout, target: Target, progress: Progress) -> None:
    """Read every byte of the release and of the model.

    Raises IntegrityError where one is wrong.
    """
    receipt = placement.load_receipt(placement.receipt_path(layout.prefix, target.release))
    found = [
        finding
        for bundle, folders in (
            (target.release, {f"{placement.RELEASES}/{target.release}"}),
            (target.model.bundle, set(target.model.folders)),
        )
        for area in areas(
            *placement.load_manifest(layout.prefix, bundle), receipt.prefix, receipt.base
        )
        if area.base in folders
        for finding in audit_area(layout.prefix, area, progress)
    ]
    if found:
        raise IntegrityError(
            f"{target.release}: damaged, so it is not put into service",
            findings=[str(finding) for finding in found[:_SHOWN]],
            why=f"{len(found)} findings in all; what serves now was not touched",
            mend=placement.REPAIR,
        )
