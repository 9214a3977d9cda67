"""Cut a delta out of a whole bundle: what the base has stays behind. See manifests.delta.

The environment's archive of a delta is made of the packed whole one, in one stream: the same two
bundles give the same bytes on every machine.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from bundler import inspecting, pack
from bundler.kept import Packed
from bundler.saving import Saving, saving
from bundler.workshop import Workshop
from manifests import archive, bundle, delta, regular, tree
from manifests.bundle import Manifest
from manifests.console import Console, Progress, ignore_progress
from manifests.delta import Delta
from manifests.digests import HashingWriter, Readable, chunks, sha256
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.lock import Lock

__all__ = ["Base", "Saving", "carried", "cut", "folder_name", "load", "plan", "saving", "to_carry"]

_SPOILT = "make the environment again with an empty cache folder"


@dataclass(frozen=True)
class Base:
    """The whole bundle that has to be installed where the delta goes."""

    manifest: Manifest
    digest: str  # the manifest's sha256


def load(place: Path) -> Base:
    """The bundle at a place: bundle.json, a medium's folder, or that of an installed release.

    A delta stands for its whole bundle. Raises UsageError where there is none, IntegrityError where
    it is damaged, FilesystemError where it can't be read.
    """
    try:
        if place.is_file() and place.name == archive.MANIFEST_NAME:
            return _base(bundle.parse(data := regular.read(place, archive.MANIFEST_LIMIT)), data)
    except OSError as error:
        raise from_oserror(error, "reading the base's manifest", place) from None
    subject = inspecting.find(place)
    assert subject.manifest is not None  # only a lock has none
    return _base(subject.manifest, subject.raw_manifest)


def _base(manifest: Manifest, data: bytes) -> Base:
    made = manifest.delta
    digest = bundle.digest_of(data) if made is None else made.manifest_sha256
    return Base(manifest.whole(), digest)


def to_carry(locked: Lock, base: Base | None) -> int:
    """Bytes of the models and adapters that have to be carried, as far as a lock can tell."""
    there = {member.sha256 for member in base.manifest.members} if base is not None else set()
    files = (file for part in locked.parts for file in part.files)
    return sum(file.size for file in files if not file.sha256 or file.sha256 not in there)


def folder_name(name: str, base: Base | None) -> str:
    """What the folder of a bundle, or of its delta from a base, is called."""
    return name if base is None else delta.folder_name(name, base.digest)


@contextmanager
def carried(
    whole: Manifest, base: Base | None, packed: Packed | None, workshop: Workshop, console: Console
) -> Iterator[tuple[Manifest, Path | None]]:
    """The manifest that goes onto the medium, and the archive of its environment.

    Without a base they are those of the whole bundle. Raises as `cut` does.
    """
    if base is None:
        yield whole, packed.path if packed is not None else None
        return
    if packed is None:
        yield cut(whole, base, None, Path(), ignore_progress), None
        return
    with workshop.scratch("delta") as scratch:
        path, length = scratch / bundle.ENVIRONMENT_MEMBER, sum(e.size for e in packed.entries)
        with console.stage(f"leave out what {base.manifest.name} has", length) as progress:
            manifest = cut(whole, base, packed, path, progress)
        yield manifest, path


def cut(
    whole: Manifest, base: Base, packed: Packed | None, path: Path, progress: Progress
) -> Manifest:
    """The manifest of a delta, whose environment's archive is written to `path`.

    `packed` is the whole environment; None for a bundle of models. Raises UsageError where the two
    bundles are the same, IntegrityError where the packed environment is damaged, FilesystemError.
    """
    made = plan(whole, base)
    members = tuple(delta.carried_members(whole.members, base.manifest.members))
    if packed is not None:
        entries = delta.split(whole.environment, made.runs)[0]
        length, digest = _write(packed, entries, path, progress)
        members = tuple(
            replace(member, size=length, sha256=digest)
            if member.role == bundle.ENVIRONMENT
            else member
            for member in members
        )
    return replace(whole, members=members, delta=made)


def plan(whole: Manifest, base: Base) -> Delta:
    """What a delta of a bundle would be.

    Raises UsageError where the two are the same.
    """
    digest = bundle.digest_of(whole.dump())
    if digest == base.digest:
        raise UsageError(
            f"{whole.name}: is the base itself (manifest {digest})",
            why="a delta carries what the base has not, and here that is nothing",
            mend="name another --base, or leave it out",
        )
    runs = delta.runs_of(whole.environment, base.manifest.environment)
    return Delta(base.manifest.name, base.digest, digest, whole.members, runs)


def _write(
    packed: Packed, entries: Sequence[tree.Entry], path: Path, progress: Progress
) -> tuple[int, str]:
    """Write those entries of a packed environment; size and sha256 of the archive."""
    wanted, proof = {entry.path for entry in entries}, sha256()
    try:
        with pack.unzstd(packed.path) as plain, path.open("xb") as handle:
            out = HashingWriter(handle, proof)
            with pack.packing(cast(BinaryIO, out), "zstd") as growing:
                for entry in packed.entries:
                    _expect(plain, archive.entry_header(entry), entry.path)
                    views = _checked(plain, entry, progress)
                    if entry.path in wanted:
                        growing.put(entry, views)
                    for _ in views:
                        pass
                    _expect(plain, archive.padding(entry.size), entry.path)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise from_oserror(error, "packing the delta") from error
    return out.count, proof.hexdigest()


def _checked(plain: BinaryIO, entry: tree.Entry, progress: Progress) -> Iterator[memoryview]:
    if entry.kind != tree.FILE:
        return
    hasher = sha256()
    for view in chunks(cast(Readable, plain), entry.size):
        hasher.update(view)
        progress(len(view))
        yield view
    if hasher.hexdigest() != entry.sha256:
        raise IntegrityError(f"{entry.path}: was altered in the cache", mend=_SPOILT)


def _expect(plain: BinaryIO, wanted: bytes, path: str) -> None:
    if plain.read(len(wanted)) != wanted:
        raise IntegrityError(f"{path}: is not where it was packed", mend=_SPOILT)
