"""Make a bundle's bill of materials from the bytes that are really in it.

Three ways lead to the same bill: from a lock by the artefacts in the store, and from a bundle, on
its media or installed, by the records in its trees. An unpacked tree lacks two things, which come
from the bill that the bundle carries: licence texts of conda packages (their info/licenses is not
unpacked) and the digest of a wheel that was compiled (no lock pins it). What a tree holds has to be
what its lock names: another version, a package more or one less is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bundler import inspecting, parts
from bundler.inspecting.subject import Subject
from bundler.papers import bill as bills
from bundler.papers import (
    gathering_code,
    gathering_conda,
    gathering_kept,
    gathering_models,
    gathering_said,
    gathering_tree,
    gathering_ways,
)
from bundler.papers.bill import Bill, Component
from bundler.papers.gathering_assembly import assemble, conda_ref, part_ref, wheel_ref
from bundler.papers.gathering_said import Said
from bundler.papers.gathering_store import of_store, of_taken, scopes
from bundler.papers.gathering_ways import Ways
from manifests.console import Console, Progress, ignore_progress
from manifests.errors import UsageError
from manifests.lock import COMPUTED, Build, Lock, Wheel
from wheelhouse.members import size_of


def of_place(
    place: Path,
    ways: Ways,
    console: Console,
    volumes_in: Sequence[Path] = (),
    *,
    recompute: bool = False,
) -> Bill:
    """The bill of a bundle on its media, of an installation or a release in it, or of a lock.

    Raises what `inspecting.find_or_lock`, `of_lock` and `of_subject` raise.
    """
    subject = inspecting.find_or_lock(place, volumes_in)
    if subject.manifest is None:
        assert subject.lock is not None
        return of_lock(subject.lock, ways, console)
    if not recompute and (kept := carried(subject)) is not None:
        return kept
    with console.stage("read the packages", size_of(subject.environment)) as progress:
        return of_subject(subject, progress, recompute=True)


def of_lock(locked: Lock, ways: Ways, console: Console) -> Bill:
    """The bill of the bundle that `bundle create` makes by a lock, with what fetches it.

    Raises what `gathering_ways` raises where something can't be had.
    """
    gathering_ways.fetch_packages(locked, ways, console)
    built = gathering_ways.built(locked, ways.workshop)
    found = [gathering_ways.part(part, ways, console) for part in locked.parts]
    papers = {part_ref(part): texts for part, (_, texts) in zip(locked.parts, found, strict=True)}
    locked = gathering_ways.with_files(locked, [files for files, _ in found])
    return of_store(locked, built, papers, ways.workshop.store)


def of_subject(
    subject: Subject, progress: Progress = ignore_progress, *, recompute: bool = False
) -> Bill:
    """The bill of a bundle on its media, or of an installed release.

    It is the one that the bundle carries, unless there is none or `recompute` wants it read out of
    the trees; `progress` hears then of the environment's bytes. Raises UsageError where the lock
    can't be read, IntegrityError where a tree holds other packages than the lock, and what
    `gathering_tree.read` raises.
    """
    kept = carried(subject)
    if kept is not None and not recompute:
        return kept
    locked = subject.lock
    if locked is None:
        raise UsageError(
            f"{subject.path}: its packages are not known",
            why="; ".join(subject.notes),
            mend="name the folder of the missing volume with --volumes-in DIR, or use the `bundle` "
            "that made it",
        )
    manifest = gathering_tree.manifest_of(subject)
    known = {one.ref: one for one in kept.components} if kept is not None else {}
    built = tuple(_built(build, subject, known) for build in locked.builds)
    trees = gathering_tree.read(subject, progress)
    read = {
        bills.ENVIRONMENT: (manifest.environment, trees.environment),
        bills.RUNTIME: (manifest.runtime, trees.runtime),
    }
    said = _parts_said(subject, locked)
    for scope, conda, wheels in scopes(locked, built):
        entries, files = read[scope]
        records = gathering_conda.records(conda, files)
        if unrecorded := [one.name for one in conda if one.name not in records]:
            raise gathering_tree.other_packages([f"{name}: missing" for name in unrecorded])
        owned = {path for record in records.values() for path in gathering_conda.paths(record)}
        infos = gathering_tree.of_distributions(entries, files, wheels, owned)
        for wheel in wheels:
            said[wheel_ref(scope, wheel)] = gathering_said.of_wheel(infos[wheel.name])
        for package in conda:
            ref = conda_ref(scope, package)
            said[ref] = _unpacked(records[package.name], files, known.get(ref))
    code = gathering_code.of_manifest(manifest)
    return assemble(locked, built, said, code, manifest.lock_sha256)


def carried(subject: Subject) -> Bill | None:
    """The bill that a bundle carries; None where it has none, as those of earlier releases.

    Raises IntegrityError where it is not the manifest's.
    """
    found = gathering_tree.members_of(subject, {gathering_kept.MEMBER})
    if not found:
        return None
    return gathering_kept.parse(found[gathering_kept.MEMBER], gathering_kept.MEMBER)


def _parts_said(subject: Subject, locked: Lock) -> dict[str, Said]:
    pairs = list(zip(parts.of_lock(locked), locked.parts, strict=True))
    paths = {
        place.start + file.path for place, item in pairs for file in gathering_models.papers(item)
    }
    found = gathering_tree.members_of(subject, paths)
    return {
        part_ref(item): gathering_models.said(
            item,
            {
                file.path: found[place.start + file.path]
                for file in item.files
                if place.start + file.path in found
            },
        )
        for place, item in pairs
    }


def _unpacked(
    record: Mapping[str, Any], files: gathering_tree.Files, known: Component | None
) -> Said:
    """What a conda package says in a tree; texts of its info/licenses are known, if at all."""
    said = gathering_conda.of_record(record, files)
    texts = known.texts if known is not None else ()
    if all(gathering_conda.in_payload(text.path) for text in texts):
        return said
    return replace(said, texts=texts)


def _built(build: Build, subject: Subject, known: Mapping[str, Component]) -> Wheel:
    """A compiled wheel: as the carried bill has it, else as far as the manifest knows it."""
    version = f"{build.version}+{build.label}"
    plain = Wheel(build.name, version, "", "", "", COMPUTED)
    one = known.get(wheel_ref(bills.ENVIRONMENT, plain))
    if one is not None:
        return replace(
            plain,
            filename=one.filename,
            url=one.url,
            sha256=one.sha256,
            derived=one.derived,
            size=one.size,
        )
    derived = gathering_tree.manifest_of(subject).derived
    return replace(plain, derived=next((d for d in derived if d.sha256 == build.sha256), None))


__all__ = ["Ways", "carried", "of_lock", "of_place", "of_subject", "of_taken"]
