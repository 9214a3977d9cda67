"""Find what is to be looked at: a bundle on its media, an installed release, or a lock.

Only the manifest and the lock are read, and both are checked while they are: the manifest against
the digest that install.sh (or the receipt of the installation) names, the lock against the
manifest's.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bundler.carried import Carried, look, medium_of, nobody
from manifests import bundle, lock, placement, sums
from manifests.archive import MANIFEST_NAME
from manifests.bundle import LOCK_MEMBER, Manifest
from manifests.errors import Damage, IntegrityError, SourceError, UsageError, from_oserror
from manifests.lock import Lock
from manifests.medium import ArchiveStream
from manifests.parity.names import is_spare
from manifests.reader import BundleReader

MEDIA, RELEASE, LOCK = "media", "release", "lock"


@dataclass(frozen=True)
class File:
    """One file of the archive on the media."""

    name: str
    sha256: str  # as SHA256SUMS says; not compared by looking
    size: int | None  # bytes; None where the file is not at hand
    place: str  # folder; empty where the file is not at hand


@dataclass(frozen=True)
class Subject:
    """What was found. A lock has no manifest; a manifest's lock may be out of reach."""

    kind: str
    path: Path
    digest: str  # sha256 of the manifest, or of the lock
    manifest: Manifest | None
    lock: Lock | None
    notes: tuple[str, ...] = ()  # what could not be read, and why
    files: tuple[File, ...] = ()  # of the archive; media only
    signatures: tuple[str, ...] = ()  # files beside SHA256SUMS; media only
    raw_manifest: bytes = b""
    raw_lock: bytes = b""
    parity: tuple[str, ...] = ()  # files of it that the list names; media only

    @property
    def environment(self) -> Path:
        """Where the serving environment is: the bundle's folder, or the unpacked tree."""
        return self.path / placement.ENVIRONMENT if self.kind == RELEASE else self.path


def find_or_lock(path: Path, volumes_in: Sequence[Path] = ()) -> Subject:
    """As `find`; besides, a lock that `bundle lock` wrote."""
    if path.is_file() and _starts_as_json(path):
        data = path.read_bytes()
        return Subject(LOCK, path, bundle.digest_of(data), None, lock.parse(data, str(path)))
    return find(path, volumes_in)


def _starts_as_json(path: Path) -> bool:
    with path.open("rb") as handle:  # a volume of many gigabytes, maybe
        return handle.read(1) == b"{"


def find(path: Path, volumes_in: Sequence[Path] = ()) -> Subject:
    """The bundle in a folder (or one of its files), a prefix, or a release's folder in it.

    `volumes_in` are further folders with volumes. Raises UsageError where there is nothing of the
    kind, IntegrityError where what is read is not what it should be, FilesystemError where it can't
    be read.
    """
    try:
        place = path.resolve()
        for prefix, release in ((place, ""), (place.parent.parent, place.name)):
            if placement.is_installation(prefix) and (not release or _is_release(place)):
                return _installed(prefix, release or _in_service(prefix))
        return _carried(look(medium_of([path], volumes_in)))
    except OSError as error:
        raise from_oserror(error, f"looking at {path}") from error


# On the media


def _carried(found: Carried) -> Subject:
    medium = found.medium
    medium.check_lengths(found.length)
    data, parsed, notes = _lock_of(found)
    files = []
    for piece in medium.pieces():
        place = medium.place(piece)
        size = place.stat().st_size if place else None
        files.append(File(piece.name, piece.sha256, size, str(place.parent) if place else ""))
        if place is None:
            notes = (*notes, f"{piece.name} is not at hand")
    return Subject(
        MEDIA,
        medium.folder,
        found.digest,
        found.manifest,
        parsed,
        notes,
        tuple(files),
        tuple(
            sorted(
                path.name
                for path in medium.folder.glob(f"{sums.FILE_NAME}.*")
                if path.name != sums.COPY_NAME
            )
        ),
        found.data,
        data,
        tuple(sorted(filter(is_spare, medium.listed()))),
    )


def _lock_of(found: Carried) -> tuple[bytes, Lock | None, tuple[str, ...]]:
    """The lock in the archive; what comes before it is passed over."""
    try:
        with closing(ArchiveStream(found.medium, nobody)) as stream:
            reader = BundleReader(stream, found.digest)
            for member in reader.manifest.members:
                if member.path == LOCK_MEMBER:
                    with reader.member(member) as data:
                        return _parsed(data.read())
                reader.skip(member)
    except SourceError as error:
        return b"", None, (f"the packages are not known: {error.what}",)
    raise AssertionError("a manifest without a lock is refused where it is parsed")


def _parsed(data: bytes) -> tuple[bytes, Lock | None, tuple[str, ...]]:
    """A lock whose bytes are the manifest's; another release may have written it."""
    try:
        return data, lock.parse(data, LOCK_MEMBER), ()
    except UsageError as error:
        return data, None, (f"the packages are not known: {error.what}",)


# Installed


def _is_release(place: Path) -> bool:
    return place.parent.name == placement.RELEASES


def _in_service(prefix: Path) -> str:
    """The release that `current` names, or the only one."""
    releases = placement.installed_releases(prefix)
    current = placement.current_release(prefix)
    if current or len(releases) == 1:
        return current or releases[0]
    raise UsageError(
        f"{prefix}: {len(releases)} releases are installed and none is in service",
        mend=f"name one of them: {', '.join(releases) or 'install one first'}",
    )


def _installed(prefix: Path, release: str) -> Subject:
    manifest, digest = placement.load_manifest(prefix, release)
    folder = prefix / placement.RELEASES / release
    (member,) = (one for one in manifest.members if one.path == LOCK_MEMBER)
    data, parsed, notes = _parsed(_read(folder / LOCK_MEMBER, member.sha256))
    raw = _read(folder / MANIFEST_NAME, digest)
    return Subject(
        RELEASE, folder, digest, manifest, parsed, notes, raw_manifest=raw, raw_lock=data
    )


def _read(path: Path, expected: str) -> bytes:
    mend = placement.REPAIR
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IntegrityError(f"{path}: {error.strerror}", mend=mend) from None
    if bundle.digest_of(data) != expected:
        raise Damage(str(path), expected, bundle.digest_of(data), mend=mend)
    return data
