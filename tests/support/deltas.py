"""Deltas between simulated bundles."""

import dataclasses
import tempfile
from pathlib import Path

from bundler import delta, media
from bundler.kept import Packed
from manifests import bundle
from manifests.console import ignore_progress
from manifests.kernels import Inventory
from tests.support.simulator import ENVIRONMENT, MODEL, Content, Simulator, sha256
from wheelhouse.elf import ElfInventory

OLD: Content = {
    **ENVIRONMENT,
    "lib/large": bytes(range(256)) * 8000,
    "lib/moved": b"moves",
    "lib/one": b"one",
}
NEW: Content = {
    **ENVIRONMENT,
    "lib/large": bytes(range(256)) * 8000,
    "lib/new": b"only here",
    "lib/one": b"another one",
    "share/moved": b"moves",
    "share/none": b"",
}
#: The same weights, in another revision.
NEW_MODEL = {**MODEL, "config.json": b'{"new": 1}', "sub/copy": MODEL["sub/weights.safetensors"]}


def base_of(simulator: Simulator) -> delta.Base:
    manifest = simulator.manifest()
    return delta.Base(manifest, bundle.digest_of(manifest.dump()))


def packed_of(simulator: Simulator, folder: Path) -> Packed:
    """Its environment, as the cache of a connected machine holds it."""
    data = simulator.contents()[bundle.ENVIRONMENT_MEMBER]
    path = folder / bundle.ENVIRONMENT_MEMBER
    path.write_bytes(data)
    entries = simulator.manifest().environment
    return Packed(sha256(data), len(data), entries, path, Inventory(()), ElfInventory(()))


def write(
    whole: Simulator, base: Simulator, output: Path, packed: Content | None = None
) -> tuple[Path, str]:
    """The folder of a delta and its manifest's sha256; `packed` spoils what is in its archive."""
    output.mkdir(parents=True, exist_ok=True)
    manifest, _ = _cut(whole, base, output)
    archived, data = _cut(
        whole if packed is None else dataclasses.replace(whole, environment=packed), base, output
    )
    (environment,) = archived.of_role(bundle.ENVIRONMENT)
    members = [environment if m.path == environment.path else m for m in manifest.members]
    manifest = dataclasses.replace(manifest, members=tuple(members))
    contents = {**whole.contents(), bundle.ENVIRONMENT_MEMBER: data}
    openers = {name: media.bytes_opener(content) for name, content in contents.items()}
    folder = output / manifest.folder_name
    return folder, media.write(folder, manifest, openers, ignore_progress)


def _cut(whole: Simulator, base: Simulator, output: Path) -> tuple[bundle.Manifest, bytes]:
    """A delta's manifest, and the bytes of its environment's archive."""
    with tempfile.TemporaryDirectory(dir=output) as folder:
        path = Path(folder) / "delta"
        packed = packed_of(whole, Path(folder))
        manifest = delta.cut(whole.manifest(), base_of(base), packed, path, ignore_progress)
        return manifest, path.read_bytes()
