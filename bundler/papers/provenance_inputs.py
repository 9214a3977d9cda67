"""What went into a bundle, from where and with which digest: SLSA's `resolvedDependencies`.

All of it stands in the lock, which the manifest vouches for. ResourceDescriptor:
https://github.com/in-toto/attestation/blob/main/spec/v1/resource_descriptor.md, digests:
https://github.com/in-toto/attestation/blob/main/spec/v1/digest_set.md.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from bundler.papers import gathering_purls as purls
from bundler.papers.bill import ENVIRONMENT, MODELS, PROVIDED, RUNTIME
from manifests import caches
from manifests.bundle import Manifest
from manifests.lock import (
    COMPUTED,
    PUBLISHED,
    Adapter,
    Build,
    CondaPackage,
    Lock,
    Model,
    Wheel,
)
from manifests.names import public_url

Descriptor = dict[str, Any]
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB = "hf:"


def inputs(lock: Lock, manifest: Manifest) -> list[Descriptor]:
    """Every input once, sorted; `usedIn` says what for."""
    found: dict[tuple[str, str, str], Descriptor] = {}
    for one in _all(lock, manifest):
        key = (one["name"], one.get("uri", ""), str(one.get("digest")))
        used = found.setdefault(key, one)["annotations"]["usedIn"]
        used += [place for place in one["annotations"]["usedIn"] if place not in used]
    for one in found.values():
        one["annotations"]["usedIn"].sort()
    return [found[key] for key in sorted(found)]


def _all(lock: Lock, manifest: Manifest) -> Iterator[Descriptor]:
    yield from _wheels(lock.wheels, ENVIRONMENT)
    yield from _wheels(lock.runtime_wheels, RUNTIME)
    yield from (_conda(package, ENVIRONMENT) for package in lock.conda)
    yield from (_conda(package, RUNTIME) for package in lock.runtime_conda)
    for build in lock.builds:
        yield _source(build)
        yield from _wheels(build.environment, f"build of {build.name}")
        yield from _wheels(build.toolkit, f"build of {build.name}")
    for part in lock.parts:
        yield from _part(part)
    if lock.overlay is not None:
        for one in lock.overlay.provided:
            uri = purls.wheel(one.name, one.version)
            yield _one(one.name, uri, {}, PROVIDED, recordSha256=one.record_sha256)
    for member in caches_of(manifest):
        yield _one(member[0], "", {"sha256": member[1]}, "compile caches")
    if manifest.delta is not None:
        base = {"sha256": manifest.delta.base_sha256}
        yield _one(f"{manifest.delta.base}/bundle.json", "", base, "base of the delta")


def caches_of(manifest: Manifest) -> list[tuple[str, str]]:
    """Files of compile caches that came from a rehearsal: path and sha256."""
    return [
        (one.path, one.sha256) for one in manifest.members if one.path.startswith(caches.FOLDER)
    ]


def _one(
    name: str, uri: str, digest: dict[str, str], used: str, url: str = "", **annotations: Any
) -> Descriptor:
    """A descriptor; what is empty is left out. URLs other than of the web say nothing elsewhere."""
    public = public_url(url) if url.startswith(("https://", "http://")) else ""
    fields = {"name": name, "uri": uri, "digest": digest, "downloadLocation": public}
    kept = {key: value for key, value in annotations.items() if value}
    return {
        **{key: value for key, value in fields.items() if value},
        "annotations": {"usedIn": [used], **kept},
    }


def _wheels(wheels: Iterable[Wheel], used: str) -> Iterator[Descriptor]:
    """Wheels as published; of a repaired one its origin, and what was done to it."""
    for wheel in wheels:
        made = wheel.derived
        if made is None:
            uri = purls.wheel(wheel.name, wheel.version, wheel.filename, wheel.sha256)
            digest = {"sha256": wheel.sha256}
            came = wheel.digest_from
            yield _one(wheel.filename, uri, digest, used, wheel.url, digestFrom=came)
            continue
        yield _one(
            made.origin,
            purls.wheel(wheel.name, _version(made.origin), made.origin, made.sha256),
            {"sha256": made.sha256},
            used,
            made.url,
            digestFrom=made.digest_from,
            changes=list(made.changes),
            became={"name": wheel.filename, "sha256": wheel.sha256},
        )


def _version(filename: str) -> str:
    """The version in a wheel's file name (PEP 427); empty where it has another form."""
    parts = filename.split("-")
    return parts[1] if len(parts) > 2 else ""


def _conda(package: CondaPackage, used: str) -> Descriptor:
    public = replace(package, url=public_url(package.url))
    name, digest = public.url.rpartition("/")[2], {"sha256": package.sha256}
    # The channel `host` is made of the building machine's own files.
    came = COMPUTED if public.url.startswith("host:") else PUBLISHED
    return _one(name, purls.conda(public), digest, used, public.url, digestFrom=came)


def _source(build: Build) -> Descriptor:
    return _one(
        build.filename,
        purls.wheel(build.name, build.version, build.filename, build.sha256),
        {"sha256": build.sha256},
        f"build of {build.name}",
        build.url,
        digestFrom=build.digest_from,
        archs=list(build.archs),
        cuda=build.cuda,
        torch=build.torch,
        patched=[{"path": one.path, "sha256": one.sha256} for one in build.patches],
    )


def _part(part: Model | Adapter) -> Iterator[Descriptor]:
    """A model at its commit, and each of its files."""
    uri = purls.model(part.source, part.revision)
    hub = part.source.startswith(_HUB) and _COMMIT.fullmatch(part.revision)
    base = part.base if isinstance(part, Adapter) else ""
    commit = {"gitCommit": part.revision} if hub else {}
    yield _one(part.name, uri, commit, MODELS, licence=part.licence, changesModel=base)
    for file in part.files:
        digest = {"sha256": file.sha256, "gitBlob": file.git_blob}
        yield _one(
            f"{part.name}/{file.path}",
            f"{uri}#{quote(file.path)}",
            {key: value for key, value in digest.items() if value},
            MODELS,
            digestFrom=file.digest_from,
        )
