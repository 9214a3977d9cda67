"""Installations of tiny bundles, put together in milliseconds and intact to the audit."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bundlectl import models, service
from bundlectl.layout import Layout
from manifests import archive, bundle, placement
from tests.support.simulator import ENVIRONMENT, RUNTIME, Content, Simulator, sha256


def layout_at(prefix: Path) -> Layout:
    """An installation without a release."""
    layout = Layout(prefix)
    layout.create()
    return layout


def put(
    layout: Layout,
    name: str,
    model: str = "tiny",
    *,
    alone: bool = False,
    installed: int = 1,
    files: dict[str, bytes] | None = None,
    **changes: Any,
) -> str:
    """Install a tiny bundle with a model of that name; gives the release's name.

    A bundle that is `alone` holds the model only. `files` are the model's; by default they are
    enough for the audit, and not for a start. `changes` are fields of the manifest.
    """
    weights = files or {"config.json": b"{}", "sub/weights.safetensors": model.encode() * 9}
    manifest = Simulator(name=name, model=weights).manifest()
    served = bundle.ServedModel(model, f"folder:{model}", sha256(model.encode())[:40])
    manifest = dataclasses.replace(manifest, model=served, **changes)
    if alone:
        members = tuple(m for m in manifest.members if m.role != bundle.ENVIRONMENT)
        manifest = dataclasses.replace(manifest, members=members, environment=())
    data = manifest.dump()
    release = bundle.release_id(name, bundle.digest_of(data))
    folder = layout.release(release)
    _write(folder, {archive.MANIFEST_NAME: data, bundle.LOCK_MEMBER: b"{}\n"})
    _write(folder / placement.RUNTIME, RUNTIME)
    if not alone:
        _write(folder / placement.ENVIRONMENT, ENVIRONMENT)
    _write(layout.prefix / manifest.model_folder(), {"sub": None, **weights})
    receipt = placement.Receipt(
        1, release, bundle.digest_of(data), str(layout.prefix), installed, "test"
    )
    placement.receipt_path(layout.prefix, release).write_bytes(receipt.dump())
    return release


def serve(layout: Layout, release: str, model: str = "") -> None:
    """Have a release in service, as far as papers say."""
    found = models.find(layout, release, model) if model else models.to_serve(layout, release)
    service.commit(layout, release, found)


def _write(folder: Path, content: Content) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for path, value in content.items():
        place = folder / path
        if value is None:
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
        elif isinstance(value, str):
            place.symlink_to(value)
        else:
            place.write_bytes(value)
            place.chmod(0o755 if path.startswith("bin/") else 0o644)


def below(folder: Path) -> list[str]:
    """The paths of everything in a folder but locks, which say nothing when nobody holds them."""
    found = (path for path in folder.rglob("*") if path.suffix != ".lock")
    return sorted(str(path.relative_to(folder)) for path in found)


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing in a folder appears or goes in the block."""
    before = below(folder)
    yield
    assert below(folder) == before
