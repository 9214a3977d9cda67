"""Which bundle the words of a command line name, and its manifest, read without the rest.

What is trusted is what install.sh trusts: SHA256SUMS vouches for install.sh, which names the
manifest, which names every other byte.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from manifests import medium, sums
from manifests.bundle import Manifest
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader


@dataclass(frozen=True)
class Carried:
    """A bundle on its media. Its manifest has the digest that install.sh names."""

    medium: Medium
    manifest: Manifest
    data: bytes  # the manifest's

    @property
    def digest(self) -> str:
        """The manifest's sha256."""
        return self.medium.manifest_sha256

    @property
    def length(self) -> int:
        """Bytes of the archive, however many files it lies in."""
        return self.manifest.archive_length(len(self.data))


def nobody(_volume: str) -> Path | None:
    """For what reads as far as the volumes at hand reach: one that is missing counts when needed.

    (A stream that is given `no_other_medium` asks for all volumes before it starts.)
    """
    return None


def medium_of(paths: Sequence[Path], others: Sequence[Path] = ()) -> Medium:
    """The medium of which folders, or files in them, are named; one of them holds SHA256SUMS.

    `others` are further folders that may hold volumes. Raises UsageError where they name no
    bundle, IntegrityError where they hold parts of two, or the list's install.sh is not there.
    """
    folders = list(dict.fromkeys(_folder_of(path) for path in (*paths, *others)))
    lists = {folder: _list_in(folder) for folder in map(_folder_of, paths)}
    with_list = [folder for folder, data in lists.items() if data is not None]
    if not with_list:
        raise UsageError(
            f"{', '.join(map(str, lists))}: no bundle",
            why=f"a bundle's folder holds {sums.FILE_NAME}",
            mend="name the folder that `bundle create` wrote, or the volume beside the list",
        )
    first, *more = with_list
    for folder in more:
        if lists[folder] != lists[first]:
            raise IntegrityError(
                f"{folder / sums.FILE_NAME}: is not that of {first}",
                why="the folders hold parts of two bundles, or of one that was split in two ways",
                mend="name the folders of one bundle",
            )
    found = medium.vouched(first, tuple(folder for folder in folders if folder != first))
    listed = found.listed()
    for path in paths:
        if not path.is_dir() and path.name not in {*listed, *sums.UNLISTED}:
            raise IntegrityError(
                f"{path}: the list in {first} does not name it",
                why="it is left from an earlier run, or belongs to another bundle",
                mend="name the volumes of this bundle: " + ", ".join(sorted(listed)),
            )
    return found


def look(found: Medium) -> Carried:
    """Read and check the manifest.

    Raises IntegrityError where it is not the one that install.sh names, or a volume at hand is
    another than its name says; SourceError where the first volume is missing.
    """
    with closing(ArchiveStream(found, nobody)) as stream:
        reader = BundleReader(stream, found.manifest_sha256)
    return Carried(found, reader.manifest, reader.data)


def _folder_of(path: Path) -> Path:
    if path.is_dir():
        return path
    if path.exists():
        return path.parent
    raise UsageError(f"{path}: no such file or folder", mend="name a bundle's folder")


def _list_in(folder: Path) -> bytes | None:
    try:
        return (folder / sums.FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise from_oserror(error, "looking for a bundle", folder) from error
