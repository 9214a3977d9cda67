"""Read files of a bundle, on its media or installed, each compared with the manifest's digest."""

import io
import re
import tarfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bundler.carried import medium_of, nobody
from bundler.inspecting.subject import MEDIA, Subject
from bundler.papers import gathering_conda, gathering_said
from manifests import bundle, placement, regular, tree
from manifests.bundle import Manifest, digest_of
from manifests.console import Progress, ignore_progress
from manifests.errors import Damage, IntegrityError, UsageError, from_oserror
from manifests.lock import Wheel
from manifests.medium import ArchiveStream
from manifests.reader import COPY_AGAIN, BundleReader
from wheelhouse.members import members

_INFO = re.compile(r"lib/python3[^/]*/site-packages/([^/]+)\.dist-info/(.+)")
_RECORD = re.compile(r"conda-meta/[^/]+\.json")
#: Bytes. The record of a conda package lists its files: python's has 3 MB.
_LONGEST_RECORD = 64 << 20
Files = dict[str, bytes]


@dataclass(frozen=True)
class Trees:
    """What the environment and the runtime say of their packages: bytes by path."""

    environment: Files
    runtime: Files


def read(subject: Subject, progress: Progress = ignore_progress) -> Trees:
    """Both trees' records and licence texts; `progress` hears of bytes of the environment.

    Raises UsageError for a delta on its media, and for volumes in several folders; IntegrityError
    where something is not the manifest's; FilesystemError where something can't be read.
    """
    manifest = manifest_of(subject)
    if subject.kind != MEDIA:
        environment = _installed(subject.path / placement.ENVIRONMENT, manifest.environment)
        return Trees(environment, _installed(subject.path / placement.RUNTIME, manifest.runtime))
    if manifest.delta is not None:
        raise UsageError(
            f"{subject.path}: a delta holds a part of its environment",
            why=f"the rest is in the release of {manifest.delta.base}, where it is installed",
            mend="read the installed release, or leave --recompute away",
        )
    if apart := [file.name for file in subject.files if file.place != str(subject.path)]:
        raise UsageError(
            f"{', '.join(apart)} not in {subject.path}",
            why="the environment is read from one folder",
            mend="copy the volumes together, or leave --recompute away",
        )
    packed = members_of(subject, {bundle.RUNTIME_MEMBER})[bundle.RUNTIME_MEMBER]
    return Trees(_on_media(subject.path, manifest, progress), _unpacked(packed, manifest))


def manifest_of(subject: Subject) -> Manifest:
    """The manifest of what is not a lock."""
    assert subject.manifest is not None
    return subject.manifest


def members_of(subject: Subject, paths: Collection[str]) -> Files:
    """Bytes of those members of a bundle that it holds.

    Raises IntegrityError where they are not the manifest's, SourceError where a volume is missing,
    FilesystemError.
    """
    manifest = manifest_of(subject)
    wanted = [member for member in manifest.members if member.path in paths]
    if subject.kind == MEDIA:
        return _streamed(subject, {member.path for member in wanted}) if wanted else {}
    prefix, found = subject.path.parent.parent, {}
    for member in wanted:
        folder, path = manifest.place(member, subject.path.name)
        entry = tree.Entry(path, size=member.size, sha256=member.sha256)
        found[member.path] = _file(prefix / folder, entry)
    return found


def _streamed(subject: Subject, paths: Collection[str]) -> Files:
    places = [Path(file.place) for file in subject.files if file.place]
    left, found = set(paths), {}
    with closing(ArchiveStream(medium_of([subject.path], places), nobody)) as stream:
        reader = BundleReader(stream, subject.digest)
        for member in reader.manifest.members:
            if not left:
                break
            if member.path not in left:
                reader.skip(member)
                continue
            with reader.member(member) as data:
                found[member.path] = data.read()
            left.discard(member.path)
    return found


def of_distributions(
    entries: Iterable[tree.Entry], files: Files, wheels: Sequence[Wheel], owned: Collection[str]
) -> dict[str, Files]:
    """The files of each wheel's .dist-info, by the wheel's name.

    `owned` are the paths that conda packages brought: their distributions are no wheels. Raises
    IntegrityError where the tree has others than the wheels, or in other versions.
    """
    folders: dict[str, Files] = {}
    foreign: set[str] = set()
    for entry in entries:
        if found := _INFO.fullmatch(entry.path):
            folder = folders.setdefault(found[1], {})
            if entry.path in files:
                folder[found[2]] = files[entry.path]
            if entry.path in owned:
                foreign.add(found[1])
    own = {one.name: gathering_said.info_of(folders, one.name, one.version) for one in wheels}
    missing = [f"{one.name} {one.version}: missing" for one in wheels if not own[one.name]]
    extra = [f"{name}: not in the lock" for name in folders.keys() - foreign - set(own.values())]
    if missing or extra:
        raise other_packages([*sorted(missing), *sorted(extra)])
    return {name: folders[folder] for name, folder in own.items()}


def other_packages(findings: Sequence[str]) -> IntegrityError:
    """What is raised where a tree does not hold what the lock names."""
    return IntegrityError(
        "the tree's packages are not those of its lock",
        findings=findings,
        mend="make the bundle again; take nothing that this one states of its packages as true",
    )


def _is_wanted(entry: tree.Entry) -> bool:
    if entry.kind != tree.FILE:
        return False
    if found := _INFO.fullmatch(entry.path):
        return gathering_said.is_wanted(found[2], entry.size)
    if _RECORD.fullmatch(entry.path):
        return entry.size <= _LONGEST_RECORD
    return gathering_conda.in_payload(entry.path) and entry.size <= gathering_said.LONGEST


def _installed(folder: Path, entries: Iterable[tree.Entry]) -> Files:
    return {entry.path: _file(folder, entry) for entry in filter(_is_wanted, entries)}


def _file(folder: Path, entry: tree.Entry) -> bytes:
    path = folder / entry.path
    try:
        data = regular.read(path, max(entry.size, 1))
    except OSError as error:
        raise from_oserror(error, "reading the installation", path) from None
    return _checked(str(path), data, entry, placement.REPAIR)


def _on_media(place: Path, manifest: Manifest, progress: Progress) -> Files:
    wanted = {entry.path: entry for entry in filter(_is_wanted, manifest.environment)}
    found = {path: b"" for path, entry in wanted.items() if not entry.size}
    if manifest.model_only:
        return found
    for member in members(place, magic=b"", progress=progress):
        entry = wanted.get(member.path)
        if entry is not None and entry.size:
            with member.content() as view:
                found[member.path] = _checked(member.path, bytes(view), entry, COPY_AGAIN)
    return found


def _unpacked(packed: bytes, manifest: Manifest) -> Files:
    wanted = {entry.path: entry for entry in filter(_is_wanted, manifest.runtime)}
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        for member in tar:
            entry = wanted.get(member.name)
            handle = tar.extractfile(member) if entry is not None and member.isfile() else None
            if entry is not None and handle is not None:
                found[entry.path] = _checked(entry.path, handle.read(), entry, COPY_AGAIN)
    return found


def _checked(path: str, data: bytes, entry: tree.Entry, mend: str) -> bytes:
    """The bytes, which have to be the manifest's unless the installation rewrites them."""
    if entry.rewrite is None and digest_of(data) != entry.sha256:
        raise Damage(path, entry.sha256, digest_of(data), mend=mend)
    return data
