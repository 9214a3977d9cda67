"""What differs between two bundles, releases or locks.

The record's form is published in `bundler/schemas/diff.json`. When something was made is told and
does not count as a difference, nor does its name.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bundler import parts
from bundler.inspecting.inspection import Package, packages_of, utc
from bundler.inspecting.subject import Subject
from manifests import bundle
from manifests.bundle import Manifest
from manifests.lock import Lock

SCHEMA = 1
ADDED, REMOVED, CHANGED, REPLACED = "added", "removed", "changed", "replaced"
#: Things by area, in the order in which they are told.
TARGET, STACK, SOURCES, SERVER, NEEDS = "target", "stack", "sources", "server", "needs"
WHEEL, CONDA, BUILD = "wheel", "conda_package", "build"
RUNTIME_WHEEL, RUNTIME_CONDA = "runtime_wheel", "runtime_conda_package"
MODEL, MODEL_FILE, MEMBER = "model", "model_file", "member"
AREAS = (
    *(TARGET, STACK, SOURCES, SERVER, NEEDS),
    *(WHEEL, CONDA, BUILD, RUNTIME_WHEEL, RUNTIME_CONDA),
    *(MODEL, MODEL_FILE, MEMBER),
)
_Things = dict[str, "Thing"]


@dataclass(frozen=True)
class Thing:
    """One thing on one side."""

    text: str  # version of a package, value of a setting; empty: none
    size: int | None = None  # bytes; None: not known
    digests: dict[str, str] = field(default_factory=dict)  # by algorithm


@dataclass(frozen=True)
class Change:
    """One thing that differs.

    `replaced` has the same version (or path) on both sides, and other bytes.
    """

    area: str
    name: str
    change: str
    before: Thing | None
    after: Thing | None


@dataclass(frozen=True)
class Side:
    """One of the two, as far as it can be compared: an area that is missing is not known."""

    kind: str
    path: str
    name: str
    digest: str  # sha256 of the manifest, or of the lock
    created_utc: str
    size: int | None  # bytes of the archive; None: a lock has none
    areas: Mapping[str, _Things]


@dataclass(frozen=True)
class Comparison:
    """The answer."""

    before: Side
    after: Side
    changes: tuple[Change, ...]
    not_compared: tuple[str, ...]  # areas of which one side knows nothing

    @property
    def same(self) -> bool:
        """Whether nothing differs of what both sides know."""
        return not self.changes

    def as_record(self) -> dict[str, Any]:
        """The comparison as --json prints it."""
        return {
            "schema": SCHEMA,
            "before": _head(self.before),
            "after": _head(self.after),
            "same": self.same,
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "not_compared": list(self.not_compared),
        }


def _head(side: Side) -> dict[str, Any]:
    return {f.name: getattr(side, f.name) for f in dataclasses.fields(side) if f.name != "areas"}


def compare(before: Subject, after: Subject) -> Comparison:
    """Each difference, area by area, sorted by name."""
    old, new = _side(before), _side(after)
    changes: list[Change] = []
    for area in AREAS:
        if area in old.areas and area in new.areas:
            changes += _changes(area, old.areas[area], new.areas[area])
    unknown = [area for area in AREAS if (area in old.areas) != (area in new.areas)]
    return Comparison(old, new, tuple(changes), tuple(unknown))


def _changes(area: str, old: _Things, new: _Things) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        was, becomes = old.get(name), new.get(name)
        if was is None or becomes is None:
            yield Change(area, name, ADDED if was is None else REMOVED, was, becomes)
        elif was.text != becomes.text:
            yield Change(area, name, CHANGED, was, becomes)
        # By digests of a kind that both have: for some files a Hub publishes git blob ids only.
        elif any(
            was.digests[kind] != becomes.digests[kind]
            for kind in was.digests
            if kind in becomes.digests
        ):
            yield Change(area, name, REPLACED, was, becomes)


# What each kind of thing knows


def _side(subject: Subject) -> Side:
    areas: dict[str, _Things] = {}
    manifest, locked = subject.manifest, subject.lock
    if locked is not None:
        areas |= _of_lock(locked)
    if manifest is not None:
        areas |= _of_manifest(manifest)
    made = manifest or locked
    assert made is not None
    name = manifest.name if manifest is not None else subject.path.name
    size = manifest.archive_length(len(subject.raw_manifest)) if manifest is not None else None
    return Side(
        subject.kind, str(subject.path), name, subject.digest, utc(made.created), size, areas
    )


def _of_manifest(carried: Manifest) -> dict[str, _Things]:
    manifest = carried.whole()  # a delta is compared as what it installs
    server = _settings(dataclasses.asdict(manifest.server))
    members = [m for m in manifest.members if m.role in (bundle.RUNTIME, bundle.ENVIRONMENT)]
    return {
        TARGET: _settings(dataclasses.asdict(manifest.target)),
        STACK: _settings({"stack": manifest.stack, "flavour": manifest.flavour}),
        SERVER: server | _settings({"thinking": "on" if manifest.thinking else "off"}),
        NEEDS: _settings(dataclasses.asdict(manifest.needs)),
        MODEL: _parts(part.item for part in manifest.parts()),
        MODEL_FILE: {
            member.path.removeprefix(bundle.MODEL_FOLDER): Thing(
                "", member.size, {"sha256": member.sha256}
            )
            for member in manifest.members
            if member.role in (bundle.MODEL, bundle.ADAPTER)
        },
        MEMBER: {m.path: Thing("", m.size, {"sha256": m.sha256}) for m in members},
    }


def _of_lock(locked: Lock) -> dict[str, _Things]:
    packages = packages_of(locked)
    return {
        TARGET: _settings(dataclasses.asdict(locked.target)),
        STACK: _settings({"stack": locked.stack, "flavour": locked.flavour}),
        SOURCES: _settings({"conda channel": locked.channel}),
        WHEEL: _packages(packages.wheels),
        CONDA: _packages(packages.conda),
        BUILD: {
            build.name: Thing(
                f"{build.version}+{build.label}", build.size or None, {"sha256": build.sha256}
            )
            for build in locked.builds
        },
        RUNTIME_WHEEL: _packages(packages.runtime_wheels),
        RUNTIME_CONDA: _packages(packages.runtime_conda),
        MODEL: _parts(locked.parts),
        MODEL_FILE: {
            (part.start + file.path).removeprefix(bundle.MODEL_FOLDER): Thing(
                "", file.size, _known(sha256=file.sha256, git_blob=file.git_blob)
            )
            for part, item in zip(parts.of_lock(locked), locked.parts, strict=True)
            for file in item.files
        },
    }


def _parts(items: Iterable[Any]) -> _Things:
    """What is said of models and adapters; of all but the default model by `NAME.KEY`."""
    default, *further = items
    keys = ("name", "source", "revision", "licence", "base", "rank")
    found = _settings({key: getattr(default, key) for key in keys if hasattr(default, key)})
    for one in further:
        told = {key: getattr(one, key) for key in keys[1:] if hasattr(one, key)}
        found |= _settings({one.name: told})
    return found


def _packages(packages: Iterable[Package]) -> _Things:
    return {
        package.name: Thing(package.version, package.size or None, {"sha256": package.sha256})
        for package in packages
    }


def _known(**digests: str) -> dict[str, str]:
    return {kind: digest for kind, digest in digests.items() if digest}


def _settings(values: Mapping[str, Any]) -> _Things:
    """Each value as a text; those of a table by `TABLE.KEY`."""
    found: _Things = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": Thing(str(item)) for key, item in value.items()}
        elif isinstance(value, tuple | list):
            found[name] = Thing(" ".join(map(str, value)))
        else:
            found[name] = Thing(str(value))
    return found
