"""Take releases, and the models that came with them, out of an installation.

The commit is one rename, of the receipt: without it a release is not installed, whatever of it is
still there. The receipt's new name marks the work; a kill at any moment leaves the mark, and
`finish` goes on from it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bundlectl import bytecode, discard
from bundlectl.layout import Layout
from bundlectl.syncing import sync
from manifests import archive, bundle, overlay, placement, regular, tree
from manifests.audit.installation import release_entries
from manifests.bundle import Manifest
from manifests.errors import BundleError

#: Folders below the prefix, and what is listed in each.
Folders = dict[str, tuple[tree.Entry, ...]]


def identified(layout: Layout, release: str) -> Manifest | None:
    """The manifest of a release by its name alone, which holds the start of its digest.

    None where it is not there or not that one. Needs no receipt.
    """
    path = layout.release(release) / archive.MANIFEST_NAME
    try:
        data = regular.read(path, archive.MANIFEST_LIMIT)
        manifest = bundle.parse(data)
    except (BundleError, OSError):
        return None
    known = bundle.release_id(manifest.name, bundle.digest_of(data)) == release
    return manifest if known else None


def own_folder(release: str, manifest: Manifest) -> Folders:
    """What lies in the folder of a release."""
    digest = bundle.digest_of(manifest.dump())
    # Names and kinds are all that is looked at, and no receipt is needed for those.
    base = overlay.unknown_base(manifest.overlay) if manifest.overlay is not None else None
    return {f"{placement.RELEASES}/{release}": tuple(release_entries(manifest, digest, base))}


def part_folders(manifest: Manifest) -> Folders:
    """What lies in the folder of each model and adapter of a bundle; they are shared."""
    return {part.folder: manifest.part_entries(part) for part in manifest.parts()}


def needed(layout: Layout, releases: Iterable[str]) -> set[str] | None:
    """The folders of models and adapters that releases name; None where one can't be read."""
    found: set[str] = set()
    for release in releases:
        manifest = identified(layout, release)
        if manifest is None:
            return None
        found |= {part.folder for part in manifest.parts()}
    return found


def remove(layout: Layout, doomed: Iterable[str]) -> None:
    """Remove releases, and each model that no other one names.

    The caller holds the installation's lock and has seen that nothing in their folders is unlisted,
    or in use. Raises OSError.
    """
    for release in doomed:
        mark(layout, release)
    sync(layout.receipts)
    finish(layout)


def mark(layout: Layout, release: str) -> None:
    """Make a release one that is not installed, and note that the rest of it has to go.

    Raises OSError.
    """
    receipt = placement.receipt_path(layout.prefix, release)
    with suppress(FileNotFoundError):
        receipt.rename(_mark_of(receipt))


def finish(layout: Layout) -> None:
    """Go on with every removal that has begun; nothing happens where none has.

    Raises OSError.
    """
    marks = list(_marks(layout))
    kept = needed(layout, placement.installed_releases(layout.prefix))
    for release in marks:
        manifest = identified(layout, release)
        # Where it is gone, so are its models: they go first.
        parts = manifest.parts() if manifest is not None and kept is not None else ()
        for part in parts:
            if part.folder not in (kept or ()):
                discard.set_aside(layout.prefix / part.folder)
        discard.set_aside(layout.release(release))
        bytecode.forget(layout, release)
    for folder in (layout.releases, layout.models):
        for path in discard.leftovers(folder):
            discard.whole(path)
    for release in marks:
        _mark_of(placement.receipt_path(layout.prefix, release)).unlink(missing_ok=True)


def _mark_of(receipt: Path) -> Path:
    return receipt.with_suffix(placement.TRASH)  # the name of a release may hold dots, too


def _marks(layout: Layout) -> Iterator[str]:
    """The releases whose removal has begun; one that was installed again is none of them."""
    for path in sorted(layout.receipts.glob(f"*{placement.TRASH}")):
        if path.with_suffix(".json").exists():
            path.unlink()
        else:
            yield path.stem
