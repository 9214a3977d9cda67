"""What a bundle is and holds, as one record: `bundle inspect --json` prints all of it.

The record's form is published in `bundler/schemas/inspect.json`.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from bundler.inspecting.subject import File, Subject
from bundler.saving import Saving, saving
from manifests import bundle, tree
from manifests.bundle import Manifest, Member, Needs, Part, ServedAdapter
from manifests.lock import Build, CondaPackage, Derived, Lock, Target, Wheel
from manifests.overlay import Overlay
from manifests.stack import Server

SCHEMA = 1
#: Said with every look, so that nobody takes a look for an audit.
UNCHECKED = "the other bytes were not read: `bundle audit` checks all of them"


@dataclass(frozen=True)
class Identity:
    """Which bundle it is."""

    name: str
    manifest_sha256: str
    format: int
    sequence: int
    created: int  # seconds since the epoch
    created_utc: str  # the same, "2026-11-30T12:00:00Z"
    tool: str


@dataclass(frozen=True)
class ModelFile:
    """One file of the model."""

    path: str
    size: int  # bytes
    sha256: str


@dataclass(frozen=True)
class Model:
    """The model."""

    name: str
    source: str
    revision: str
    licence: str  # as its source states it; empty: nothing stated
    size: int  # bytes
    files: tuple[ModelFile, ...]


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter."""

    name: str
    source: str
    revision: str
    base: str  # name of the model that it changes
    rank: int
    licence: str
    size: int  # bytes
    files: tuple[ModelFile, ...]


@dataclass(frozen=True)
class Unpacked:
    """A packed tree, once it is unpacked."""

    files: int
    links: int
    size: int  # bytes


@dataclass(frozen=True)
class Package:
    """A wheel or a conda package."""

    name: str
    version: str
    filename: str
    url: str  # public
    size: int  # bytes as fetched; 0: not known
    sha256: str
    digest_from: str  # "published" or "computed here"; conda channels always publish
    repaired: Derived | None = None
    licence: str | None = None  # as its METADATA states it; None: not read


@dataclass(frozen=True)
class Packages:
    """All packages that the lock names."""

    wheels: tuple[Package, ...]
    conda: tuple[Package, ...]
    runtime_wheels: tuple[Package, ...]
    runtime_conda: tuple[Package, ...]


@dataclass(frozen=True)
class Compiled:
    """A wheel that was compiled from its published source."""

    name: str
    version: str  # as published
    label: str  # local version of the result
    origin: str  # file name of the source archive
    url: str  # public
    sha256: str  # of the source archive
    archs: tuple[str, ...]
    torch: str
    cuda: str
    patched: tuple[str, ...]  # files of the source that were changed


@dataclass(frozen=True)
class Provenance:
    """Where everything comes from."""

    lock_sha256: str  # of the lock that was followed
    channel: str  # public URL, or "host"; empty: the lock could not be read
    sources: dict[str, int]  # scheme or host of the wheels → how many
    builds: tuple[Compiled, ...]
    unpublished: tuple[str, ...]  # digests that no publisher vouches for


@dataclass(frozen=True)
class Inspection:
    """Everything that a look shows."""

    schema: int
    kind: str  # "media" or "release"
    path: str
    identity: Identity
    target: Target
    needs: Needs
    stack: str
    flavour: str
    server: Server
    thinking: bool
    model: Model  # the one that is served unless another is chosen
    others: tuple[Model, ...]
    adapters: tuple[Adapter, ...]
    delta: Saving | None  # None: all is carried
    overlay: Overlay | None  # None: it brings its own Python environment
    members: tuple[Member, ...]
    unpacked: dict[str, Unpacked]  # by member
    packages: Packages | None  # None: the lock could not be read, see `notes`
    repaired: tuple[Derived, ...]
    provenance: Provenance
    size: int  # bytes of the archive
    files: tuple[File, ...]  # of the archive on the media
    signatures: tuple[str, ...]  # files beside SHA256SUMS; not checked here
    parity: tuple[str, ...]  # files that mend a damaged medium; not checked here
    checked: tuple[str, ...]  # what was compared with a digest for this look
    unchecked: str
    notes: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """The record as --json prints it."""
        return dataclasses.asdict(self)


def inspect(subject: Subject, licences: Mapping[str, str] | None = None) -> Inspection:
    """The record of a bundle; `licences` by normalised name, where the environment was read."""
    manifest = subject.manifest
    assert manifest is not None, "a lock is compared, not inspected"
    models = _models(manifest.whole())
    checked = ["install.sh"] if subject.files else []
    checked += ["bundle.json", *([bundle.LOCK_MEMBER] if subject.raw_lock else [])]
    return Inspection(
        schema=SCHEMA,
        kind=subject.kind,
        path=str(subject.path),
        identity=_identity(manifest, subject.digest),
        target=manifest.target,
        needs=manifest.needs,
        stack=manifest.stack,
        flavour=manifest.flavour,
        server=manifest.server,
        thinking=manifest.thinking,
        model=models[0],
        others=models[1:],
        adapters=_adapters(manifest.whole()),
        delta=saving(manifest),
        overlay=manifest.overlay,
        members=manifest.members,
        unpacked={
            bundle.RUNTIME_MEMBER: _unpacked(manifest.runtime),
            bundle.ENVIRONMENT_MEMBER: _unpacked(manifest.environment),
        },
        packages=packages_of(subject.lock, licences) if subject.lock is not None else None,
        repaired=manifest.derived,
        provenance=_provenance(manifest, subject.lock),
        size=manifest.archive_length(len(subject.raw_manifest)),
        files=subject.files,
        signatures=subject.signatures,
        parity=subject.parity,
        checked=tuple(checked),
        unchecked=UNCHECKED,
        notes=(*subject.notes, *(f"can run code: {risk}" for risk in manifest.risks)),
    )


def packages_of(locked: Lock, licences: Mapping[str, str] | None = None) -> Packages:
    """The packages of a lock."""
    stated = licences or {}

    def wheels(found: Iterable[Wheel], known: Mapping[str, str]) -> tuple[Package, ...]:
        return tuple(_wheel(wheel, known.get(wheel.name)) for wheel in found)

    return Packages(
        wheels=wheels(locked.wheels, stated),
        conda=tuple(map(_conda, locked.conda)),
        runtime_wheels=wheels(locked.runtime_wheels, {}),
        runtime_conda=tuple(map(_conda, locked.runtime_conda)),
    )


def _wheel(wheel: Wheel, licence: str | None) -> Package:
    return Package(
        wheel.name,
        wheel.version,
        wheel.filename,
        wheel.url,
        wheel.size,
        wheel.sha256,
        wheel.digest_from,
        wheel.derived,
        licence,
    )


def _conda(package: CondaPackage) -> Package:
    return Package(
        package.name,
        f"{package.version} {package.build}",
        package.url.rpartition("/")[2],
        package.url,
        package.size,
        package.sha256,
        "published",
    )


def _identity(manifest: Manifest, digest: str) -> Identity:
    return Identity(
        manifest.name,
        digest,
        manifest.schema,
        manifest.sequence,
        manifest.created,
        utc(manifest.created),
        manifest.tool,
    )


def utc(seconds: int) -> str:
    """Seconds since the epoch as RFC 3339; as they are where no calendar reaches."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _models(manifest: Manifest) -> tuple[Model, ...]:
    """The models, the default one first."""
    found = []
    for part, model in zip(manifest.parts(), manifest.models, strict=False):  # adapters follow
        files = _files(manifest, part)
        size = sum(file.size for file in files)
        found.append(Model(model.name, model.source, model.revision, model.licence, size, files))
    return tuple(found)


def _adapters(manifest: Manifest) -> tuple[Adapter, ...]:
    found = []
    for part in manifest.parts():
        if isinstance(one := part.item, ServedAdapter):
            files = _files(manifest, part)
            named = (one.name, one.source, one.revision, one.base, one.rank, one.licence)
            found.append(Adapter(*named, sum(file.size for file in files), files))
    return tuple(found)


def _files(manifest: Manifest, part: Part) -> tuple[ModelFile, ...]:
    return tuple(
        ModelFile(entry.path, entry.size, entry.sha256)
        for entry in manifest.part_entries(part)
        if entry.kind == tree.FILE
    )


def _unpacked(entries: Sequence[tree.Entry]) -> Unpacked:
    kinds = Counter(entry.kind for entry in entries)
    return Unpacked(kinds[tree.FILE], kinds[tree.LINK], sum(entry.size for entry in entries))


def _provenance(manifest: Manifest, locked: Lock | None) -> Provenance:
    if locked is None:
        return Provenance(manifest.lock_sha256, "", {}, (), manifest.unpublished)
    sources = Counter(_source(wheel.url) for wheel in (*locked.wheels, *locked.runtime_wheels))
    return Provenance(
        manifest.lock_sha256,
        locked.channel,
        dict(sorted(sources.items())),
        tuple(map(_compiled, locked.builds)),
        manifest.unpublished,
    )


def _compiled(build: Build) -> Compiled:
    return Compiled(
        build.name,
        build.version,
        build.label,
        build.filename,
        build.url,
        build.sha256,
        build.archs,
        build.torch,
        build.cuda,
        tuple(patch.path for patch in build.patches),
    )


def _source(url: str) -> str:
    """`host.name` of a URL that was fetched, `file` or `derived` (see lock.Wheel) otherwise."""
    parts = urlsplit(url)
    return parts.netloc or parts.scheme
