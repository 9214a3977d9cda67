"""A bundle's folder, as install.sh hands it over: already checked, except for the archive."""

import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from manifests import sums
from manifests.digests import BackgroundHasher, sha256
from manifests.errors import Damage, IntegrityError, from_oserror
from manifests.reader import COPY_AGAIN


@dataclass(frozen=True)
class Media:
    """A bundle's folder."""

    folder: Path
    manifest_sha256: str  # as install.sh names it; SHA256SUMS vouches for install.sh

    def archive(self) -> tuple[Path, str]:
        """The archive and its sha256 according to the list.

        Raises IntegrityError where the list names none or several.
        """
        try:
            listed = sums.parse((self.folder / sums.FILE_NAME).read_bytes())
        except OSError as error:
            raise from_oserror(error, "reading the list of the medium") from error
        archives = [name for name in listed if name.endswith(".tar")]
        if len(archives) != 1:
            raise IntegrityError(
                f"{sums.FILE_NAME}: names {len(archives)} archives, one is needed", mend=COPY_AGAIN
            )
        return self.folder / archives[0], listed[archives[0]]


class ArchiveStream:
    """The archive's bytes, hashed as a whole by the way, as long as nothing is skipped."""

    def __init__(self, raw: FileIO) -> None:
        self._raw = raw
        self._whole = BackgroundHasher(sha256())
        self._skipped = False

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end."""
        count = self._raw.readinto(buffer) or 0
        if not self._skipped:
            self._whole.update(buffer[:count])
        return count

    def seek(self, offset: int, whence: int) -> int:
        """Move on without reading; only forwards makes sense."""
        self._skipped = True
        return self._raw.seek(offset, whence)

    def check_whole(self, name: str, expected: str) -> None:
        """Compare with the list, if every byte was read.

        What was skipped had been verified member by member by an earlier run. Raises Damage.
        """
        found = self._whole.hexdigest()
        if not self._skipped and found != expected:
            raise Damage(f"{name} in {sums.FILE_NAME}", expected, found, mend=COPY_AGAIN)


def open_archive(path: Path) -> FileIO:
    """The archive for one pass from front to back."""
    try:
        handle = path.open("rb", buffering=0)
        os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    except OSError as error:
        raise from_oserror(error, "opening the archive") from error
    return handle
