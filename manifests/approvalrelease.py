"""What a manifest and its lock say of a release, for the records that people sign."""

import re
from collections.abc import Iterator

from manifests import approval, gpu, tree
from manifests.approval import Amount, Layer, Part, Release
from manifests.bundle import Manifest, ServedAdapter
from manifests.lock import Lock

#: NVIDIA's wheel with the CUDA runtime; its name ends in the major release up to CUDA 12.
_CUDA = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")
#: What may follow the name of the server's module in the name of its wheel.
_VARIANTS = ("", "-cpu")


def of_manifest(carried: Manifest, digest: str, lock: Lock | None) -> Release:
    """The release that a manifest with this sha256 installs; without its lock few layers are known.

    A delta is told as the whole bundle that it makes, by that one's digest.
    """
    manifest = carried.whole()
    return Release(
        name=manifest.name,
        manifest_sha256=carried.delta.manifest_sha256 if carried.delta else digest,
        lock_sha256=manifest.lock_sha256,
        sequence=manifest.sequence,
        created=manifest.created,
        tool=manifest.tool,
        target=manifest.target,
        needs=manifest.needs,
        stack=manifest.stack,
        flavour=manifest.flavour,
        server=(manifest.server.module, *manifest.server.arguments),
        layers=tuple(_layers(manifest, lock)),
        parts=tuple(_parts(manifest)),
        environment=_amount(manifest.environment),
        runtime=_amount(manifest.runtime),
        members=manifest.members,
        risks=manifest.risks,
    )


def _amount(entries: tuple[tree.Entry, ...]) -> Amount:
    files = [entry for entry in entries if entry.kind == tree.FILE]
    return Amount(len(files), sum(entry.size for entry in files))


def _parts(manifest: Manifest) -> Iterator[Part]:
    for part in manifest.parts():
        item, amount = part.item, _amount(manifest.part_entries(part))
        kind = approval.ADAPTER if isinstance(item, ServedAdapter) else approval.MODEL
        told = (kind, item.name, item.source, item.revision, item.licence)
        yield Part(*told, amount.files, amount.size)


def _layers(manifest: Manifest, lock: Lock | None) -> Iterator[Layer]:
    """The lowest first: host, driver, CUDA, torch, server, model."""
    target, needs = manifest.target, manifest.needs
    yield Layer(approval.HOST, f"Linux {target.arch}", f"glibc ≥ {needs.glibc}")
    packages = _packages(manifest, lock)
    if target.gpus != (gpu.CPU,):
        least = needs.driver or target.driver
        yield Layer(approval.DRIVER, "NVIDIA", f"≥ {least}" if least else "")
        cuda = next((version for name, version in packages.items() if _CUDA.fullmatch(name)), "")
        yield Layer(approval.CUDA, "CUDA", cuda)
    if not manifest.model_only:
        if "torch" in packages:
            yield Layer(approval.TORCH, "torch", packages["torch"])
        yield _server(manifest.server.module.partition(".")[0], packages)
    model = manifest.model
    yield Layer(approval.MODEL, model.name, model.revision[:12])


def _packages(manifest: Manifest, lock: Lock | None) -> dict[str, str]:
    """Versions by name: of what is carried, and of what an overlay's host has."""
    there = manifest.overlay.provided if manifest.overlay else ()
    wheels = lock.wheels if lock else ()
    found = {one.name: one.version for one in there}
    return found | {one.name: one.version for one in wheels}


def _server(module: str, packages: dict[str, str]) -> Layer:
    plain = module.replace("_", "-")
    name = next((found for v in _VARIANTS if (found := plain + v) in packages), plain)
    return Layer(approval.SERVER, name, packages.get(name, ""))
