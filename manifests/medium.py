"""A bundle's folder as a source of bytes: one archive, or volumes in one folder or several.

Reading goes front to back, once. Each volume's sha256 is compared with SHA256SUMS when its last
byte has passed, so that a bad disc is named as soon as it can be.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

from manifests import archive, regular, sums, volumes
from manifests.bundle import digest_of
from manifests.digests import BackgroundHasher, sha256
from manifests.errors import Damage, IntegrityError, SourceError, from_oserror
from manifests.reader import COPY_AGAIN

_PIECE = re.compile(r"(.+\.tar)(?:\.(\d{3}))?")
INSTALLER = "install.sh"
#: The line of install.sh that names the manifest; see installer/bundlectl/install.sh.
EMBEDDED_DIGEST = re.compile(rb"^MANIFEST_SHA256=([0-9a-f]{64})$", re.MULTILINE)
#: Asked for a folder that holds the named volume; None: there is none.
NextMedium = Callable[[str], Path | None]


def no_other_medium(_volume: str) -> Path | None:
    """For runs in which nobody changes discs."""
    return None


def refuse(damage: Damage) -> None:
    """Take the first damage as the end."""
    raise damage


@dataclass(frozen=True)
class Piece:
    """One file of the archive."""

    name: str
    sha256: str
    label: volumes.Label | None  # None for an archive in one piece


@dataclass(frozen=True)
class Medium:
    """A bundle's folder, and further folders that may hold its volumes.

    `manifest_sha256` is the manifest that install.sh names; SHA256SUMS vouches for install.sh.
    """

    folder: Path
    others: tuple[Path, ...] = ()
    manifest_sha256: str = ""

    def listed(self) -> dict[str, str]:
        """File name → sha256, of SHA256SUMS.

        Raises IntegrityError where the list is malformed, FilesystemError where it can't be read.
        """
        try:
            return sums.parse(regular.read(self.folder / sums.FILE_NAME))
        except OSError as error:
            raise from_oserror(error, "reading the list of the medium") from error

    def pieces(self) -> list[Piece]:
        """The archive's files in order, as the list names them.

        Raises IntegrityError where the list names no archive, two, or volumes with gaps.
        """
        found = sorted(
            (match, digest)
            for name, digest in self.listed().items()
            if (match := _split(name)) is not None
        )
        names = {name for (name, _), _ in found}
        if len(names) != 1:
            raise IntegrityError(
                f"{sums.FILE_NAME}: names {len(names)} archives, one is needed", mend=COPY_AGAIN
            )
        (name,) = names
        numbers = [number for (_, number), _ in found]
        if numbers == [-1]:
            return [Piece(name, found[0][1], None)]
        if numbers != list(range(len(numbers))):
            raise IntegrityError(f"{sums.FILE_NAME}: volumes of {name} are missing in the list")
        return [
            Piece(
                volumes.volume_name(name, number),
                digest,
                volumes.Label(name, number, len(numbers), ""),
            )
            for (_, number), digest in found
        ]

    def places(self, piece: Piece) -> list[Path]:
        """Wherever a piece lies; the first is read."""
        return self.files(piece.name)

    def files(self, name: str) -> list[Path]:
        """Wherever a file lies."""
        paths = [folder / name for folder in (self.folder, *self.others)]
        return [path for path in paths if path.is_file()]

    def place(self, piece: Piece) -> Path | None:
        """Where a piece lies, if it is at hand."""
        return next(iter(self.places(piece)), None)

    def installer(self) -> bytes:
        """install.sh, which the list vouches for.

        Raises IntegrityError where it is missing or altered, FilesystemError where it can't be
        read.
        """
        expected = self.listed().get(INSTALLER, "no line in the list")
        try:
            script = regular.read(self.folder / INSTALLER)
        except FileNotFoundError:
            raise Damage(INSTALLER, expected, "no such file", mend=COPY_AGAIN) from None
        except OSError as error:
            raise from_oserror(error, "reading the medium") from error
        if digest_of(script) != expected:
            raise Damage(INSTALLER, expected, digest_of(script), mend=COPY_AGAIN)
        return script

    def check_lengths(self, length: int) -> None:
        """Compare the sizes of the files that are at hand with the archive's, which is `length`.

        Lengths come before digests: a volume that is cut off is named without reading it. Raises
        Damage, FilesystemError where a file can't be looked at.
        """
        pieces = self.pieces()
        try:
            found = [path.stat().st_size if (path := self.place(p)) else None for p in pieces]
        except OSError as error:
            raise from_oserror(error, "looking at the medium") from error
        wanted = volumes.lengths(length, found) if pieces[0].label is not None else [length]
        for piece, size, expected in zip(pieces, found, wanted or found, strict=True):
            if size not in (None, expected):
                raise Damage(piece.name, f"{expected} bytes", f"{size} bytes", mend=COPY_AGAIN)


def vouched(folder: Path, others: tuple[Path, ...] = ()) -> Medium:
    """The medium that holds the manifest which its install.sh names.

    Raises IntegrityError where list or install.sh are not as they were made, FilesystemError where
    they can't be read.
    """
    medium = Medium(folder, others)
    match = EMBEDDED_DIGEST.search(medium.installer())
    if match is None:
        raise IntegrityError(f"{INSTALLER}: names no manifest", mend=COPY_AGAIN)
    return replace(medium, manifest_sha256=match[1].decode())


def archive_of(name: str) -> str:
    """The archive that a file name belongs to, as the whole or as a volume; empty for others."""
    parts = _split(name)
    return parts[0] if parts else ""


def _split(name: str) -> tuple[str, int] | None:
    match = _PIECE.fullmatch(name)
    if match is None:
        return None
    return match[1], int(match[2]) if match[2] else -1


class ArchiveStream:
    """The archive's bytes over all pieces, each hashed as a whole as long as nothing is skipped."""

    def __init__(
        self,
        medium: Medium,
        next_medium: NextMedium = no_other_medium,
        damaged: Callable[[Damage], None] = refuse,
    ) -> None:
        """`damaged` hears of a piece that is not what the list says; an audit goes on then.

        Raises SourceError for a missing volume that nobody can be asked for, Damage for one that
        belongs elsewhere.
        """
        self._medium = medium
        self._next_medium = next_medium
        self._damaged = damaged
        self._pieces = medium.pieces()
        self._index = -1
        self._handle: FileIO | None = None
        self._hasher: BackgroundHasher | None = None
        self._skipped = False
        for piece in self._pieces:
            path = medium.place(piece)
            if path is not None:
                self._check_label(path, piece)
            elif next_medium is no_other_medium:
                raise self._missing(piece)

    def close(self) -> None:
        """Close the open file."""
        if self._handle is not None:
            self._handle.close()
        if self._hasher is not None:
            self._hasher.hexdigest()

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the end.

        Raises Damage where a finished piece is not what the list says, SourceError where the next
        one is not to be had.
        """
        while True:
            count = self._handle.readinto(buffer) or 0 if self._handle is not None else 0
            if count:
                if self._hasher is not None:
                    self._hasher.update(buffer[:count])
                return count
            self._finish_piece()
            if self._index + 1 == len(self._pieces):
                return 0
            self._open_next()

    def seek(self, offset: int, whence: int) -> int:
        """Move forwards without reading (whence: os.SEEK_CUR); what is skipped is not hashed."""
        assert whence == os.SEEK_CUR
        left = offset
        while left:
            if self._handle is None:
                if self._index + 1 == len(self._pieces):
                    break  # behind the end, as whoever reads there finds
                self._open_next()
            assert self._handle is not None
            here = self._handle.tell()
            room = os.fstat(self._handle.fileno()).st_size - here
            self._drop_hasher()
            if left < room or self._index + 1 == len(self._pieces):
                self._handle.seek(left, os.SEEK_CUR)
                break
            left -= room
            self._open_next()
        return offset

    def _drop_hasher(self) -> None:
        if self._hasher is not None:
            self._hasher.hexdigest()
            self._hasher = None

    def _finish_piece(self) -> None:
        """At the end of a piece: compare, if every byte of it was read."""
        if self._handle is None:
            return
        piece, hasher = self._pieces[self._index], self._hasher
        self._handle.close()
        self._handle = self._hasher = None
        if hasher is not None and (found := hasher.hexdigest()) != piece.sha256:
            self._damaged(Damage(piece.name, piece.sha256, found, mend=COPY_AGAIN))

    def _open_next(self) -> None:
        if self._handle is not None:
            self._handle.close()
        self._index += 1
        piece = self._pieces[self._index]
        path = self._medium.place(piece)
        if path is None:
            folder = self._next_medium(piece.name)
            path = folder / piece.name if folder is not None else None
            if path is None or not path.is_file():
                raise self._missing(piece)
        try:
            handle = path.open("rb", buffering=0)
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            self._handle, self._hasher = handle, BackgroundHasher(sha256())
            if piece.label is not None:
                block = handle.read(archive.BLOCK)
                self._hasher.update(block)
                self._compare(block, piece)
        except OSError as error:
            raise from_oserror(error, "opening the archive") from error

    def _check_label(self, path: Path, piece: Piece) -> None:
        """Name a swapped or foreign volume before anything is unpacked."""
        if piece.label is None:
            return
        try:
            with path.open("rb") as handle:
                self._compare(handle.read(archive.BLOCK), piece)
        except OSError as error:
            raise from_oserror(error, "reading a volume") from error

    def _compare(self, block: bytes, piece: Piece) -> None:
        wanted = piece.label
        if wanted is None:
            return
        found = volumes.parse_label(block, piece.name)
        expected = self._medium.manifest_sha256
        if expected and found.manifest_sha256 != expected:
            raise Damage(
                f"{piece.name}: the bundle that it belongs to",
                expected,
                found.manifest_sha256,
                mend="put in the volume of this bundle",
            )
        if (found.number, found.count) != (wanted.number, wanted.count):
            raise Damage(
                f"{piece.name}: the volume that it is",
                f"{wanted.number} of {wanted.count}",
                f"{found.number} of {found.count}",
                mend="rename the volumes as they were, or copy them again",
            )

    def _missing(self, piece: Piece) -> SourceError:
        return SourceError(
            f"{piece.name}: not on this medium",
            why=f"looked in {', '.join(map(str, (self._medium.folder, *self._medium.others)))}",
            mend="name its folder with --volumes-in DIR, or have it asked for with --next-medium",
        )
