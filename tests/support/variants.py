"""Other bundles made from the small one in a second: another name, another server, other needs."""

import dataclasses
from pathlib import Path
from typing import Any

from bundler import media
from manifests import bundle
from manifests.reader import BundleReader


def variant(folder: Path, output: Path, **changes: Any) -> Path:
    """A bundle with the same content and a manifest in which some fields are others."""
    contents = {}
    with (folder / f"{folder.name}.tar").open("rb", buffering=0) as raw:
        reader = BundleReader(raw)
        for member in reader.manifest.members:
            with reader.member(member) as stream:
                contents[member.path] = stream.read()
    manifest = dataclasses.replace(reader.manifest, **changes)
    target = output / manifest.name
    output.mkdir(parents=True, exist_ok=True)
    openers = {path: media.bytes_opener(data) for path, data in contents.items()}
    media.write(target, manifest, openers, lambda count: None)
    return target


def manifest_of(folder: Path) -> tuple[bundle.Manifest, str]:
    """The manifest of a bundle, and its sha256."""
    with (folder / f"{folder.name}.tar").open("rb", buffering=0) as raw:
        reader = BundleReader(raw)
    return reader.manifest, reader.digest


def broken_server(folder: Path, output: Path, mode: str) -> Path:
    """A bundle whose server fails in one of stub_vllm's ways."""
    manifest, _ = manifest_of(folder)
    environment = {**manifest.server.environment, "STUB_MODE": mode}
    server = dataclasses.replace(manifest.server, environment=environment)
    return variant(folder, output, name=f"{manifest.name}+{mode}", server=server)
