"""Lay a bundle that exists into other files: `bundle split` and `bundle join`.

The archive stays the same byte for byte, and with it the manifest; so the result is what `bundle
create` would have written. Each byte is read once: what the reader has checked of it is what goes
into the new files, and these get their folder's name when all of it was right. Only install.sh
and SHA256SUMS differ, in the names and digests of the files.
"""

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bundler import media
from bundler.carried import Carried
from bundler.pieces import Pieces
from manifests import sums
from manifests.console import ignore_progress
from manifests.digests import Readable, chunks
from manifests.errors import Damage, IntegrityError, UsageError, from_oserror
from manifests.medium import INSTALLER, ArchiveStream, Medium, archive_of
from manifests.newfolder import new_folder
from manifests.parity.names import beside as for_restoring
from manifests.reader import COPY_AGAIN, BundleReader
from manifests.signature import SIDECAR

#: The line of install.sh that names the archive's first file; see installer/bundlectl/install.sh.
_ARCHIVE_LINE = re.compile(rb"^ARCHIVE=.*$", re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """A bundle that was laid into other files."""

    folder: Path
    digest: str  # the manifest's sha256, as before
    files: tuple[str, ...]  # of the archive, in order
    length: int  # bytes of the archive
    notes: tuple[str, ...]  # what the new folder lacks, a sentence each


def resplit(
    found: Carried,
    output: Path,
    volume_size: int = 0,
    *,
    force: bool = False,
    progress: Callable[[int], None] = ignore_progress,
) -> Written:
    """Copy a bundle to a folder of its name below `output`, in files of at most `volume_size`.

    0 is one file. Volumes that are missing, swapped, foreign or of a wrong length are named before
    anything is written, other damage when it passes; nothing is left behind then. Raises
    SourceError for what is missing, IntegrityError for damage, UsageError where the result has no
    place or the size does not fit, FilesystemError where the disk fails or is full.
    """
    source = found.medium
    with closing(ArchiveStream(source)):
        pass  # labels, and whether all volumes are at hand
    source.check_lengths(found.length)
    script = source.installer()
    folder = output / found.manifest.folder_name
    _check_place(folder, source, force)
    media.check_output(output, found.length)
    names = _copy(found, folder, volume_size, script, progress)
    return Written(folder, found.digest, names, found.length, _left_behind(source))


def _copy(
    found: Carried,
    folder: Path,
    volume_size: int,
    script: bytes,
    progress: Callable[[int], None],
) -> tuple[str, ...]:
    manifest = found.manifest
    with (
        new_folder(folder) as work,
        closing(Pieces(work, manifest, found.digest, len(found.data), volume_size)) as pieces,
        closing(ArchiveStream(found.medium)) as stream,
    ):
        try:
            reader = BundleReader(_Copying(stream, pieces, progress), found.digest)
            for member in manifest.members:
                with reader.member(member):
                    pass  # reading is copying
            reader.finish()
        except Damage:
            if len(found.medium.pieces()) > 1:
                for _ in chunks(stream):
                    pass  # at its end the volume is named, and that is what gets copied again
            raise
        media.seal(work, pieces, _starting_from(script, pieces.names[0]))
        return tuple(pieces.names)


class _Copying:
    """A stream of which everything that is read goes into the new files too."""

    def __init__(self, raw: Readable, pieces: Pieces, progress: Callable[[int], None]) -> None:
        self._raw = raw
        self._pieces = pieces
        self._progress = progress

    def readinto(self, buffer: memoryview) -> int:
        try:
            count = self._raw.readinto(buffer) or 0
        except OSError as error:
            raise from_oserror(error, "reading the archive") from error
        self._pieces.put(buffer[:count])
        self._progress(count)
        return count


def _starting_from(script: bytes, first: str) -> bytes:
    """The bundle's own install.sh, which goes with its runtime, for another first file."""
    changed, count = _ARCHIVE_LINE.subn(f"ARCHIVE={first}".encode(), script)
    if count != 1:
        raise IntegrityError(f"{INSTALLER}: names {count} archives, one is needed", mend=COPY_AGAIN)
    return changed


def _check_place(folder: Path, source: Medium, force: bool) -> None:
    for used in (source.folder, *source.others):
        if folder.exists() and folder.samefile(used):
            raise UsageError(
                f"{folder}: the bundle is read from there",
                why="the result has the same name, and takes its place only beside it",
                mend="choose another --output",
            )
    media.check_new(folder, force)


def _left_behind(source: Medium) -> tuple[str, ...]:
    """What lies beside the bundle and does not hold for the new files."""
    listed = set(source.listed())
    other = sorted(name for name in listed if name != INSTALLER and not archive_of(name))
    notes = [
        f"{name}: not taken along; it was made for the old files"
        for name in other
        if not for_restoring(name)
    ]
    if any(map(for_restoring, other)):
        notes.append(
            "the parity was not taken along; it was made for the old files, so make it anew with "
            "`bundle parity`"
        )
    signatures = sorted(
        path.name
        for path in source.folder.glob(f"{sums.FILE_NAME}.*")
        if path.name != sums.COPY_NAME
    )
    signatures += [name for name in (SIDECAR,) if (source.folder / name).is_file()]
    notes += [
        f"{name}: not taken along; it signs the old list, so sign the new one with `bundle sign`"
        for name in signatures
    ]
    return tuple(notes)
