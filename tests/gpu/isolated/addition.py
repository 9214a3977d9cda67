"""A medium with one more model, made where the release is installed.

`bundle create --model-only` needs the connected machine's tools (a conda solver, pip-tools); what
is left of it without them is done here with its own code: the model's folder is pinned, judged and
hashed by `bundler.parts`, and `bundler.media` writes the medium. What that would have built, the
small runtime for install.sh, is taken as it is from the medium that was carried.

    python -m tests.gpu.isolated.addition CARRIED_MEDIUM PREFIX/releases/ID/bundle.lock MODEL OUT
"""

import json
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bundler import media, parts
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import bundle, lock, stack
from manifests.bundle import Manifest, Member
from manifests.console import Console
from manifests.lock import Lock
from manifests.manual.documents import documents
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader


def carried(medium: Path) -> tuple[Manifest, bytes]:
    """The manifest of a medium, and its runtime's archive."""
    with closing(ArchiveStream(Medium(medium))) as source:
        reader = BundleReader(source)
        for member in reader.manifest.members:
            if member.path == bundle.RUNTIME_MEMBER:
                with reader.member(member) as opened:
                    return reader.manifest, opened.read()
            reader.skip(member)
    raise SystemExit(f"{medium}: no {bundle.RUNTIME_MEMBER}")


def manifest_of(
    base: Manifest, locked: Lock, taken: tuple[parts.Taken, ...], name: str
) -> Manifest:
    """As `bundler.create.describe` makes it for models alone."""
    (runtime,) = base.of_role(bundle.RUNTIME)
    papers = {**documents(), bundle.LOCK_MEMBER: locked.dump()}
    written = [
        Member(path, bundle.DOCUMENT, len(data), bundle.digest_of(data))
        for path, data in papers.items()
    ]
    models = parts.measured(locked, taken)
    return replace(
        base,
        name=name,
        sequence=locked.created,
        created=locked.created,
        model=models[0],
        others=models[1:],
        adapters=(),
        lock_sha256=locked.digest(),
        members=(runtime, *written, *parts.members_of(locked)),
        environment=(),
        derived=(),
        unpublished=tuple(parts.unpublished(locked)),
        overlay=None,
    )


def main(medium: Path, base_lock: Path, folder: Path, out: Path) -> None:
    console, workshop = Console(quiet=True, json=True), Workshop(out / "workshop")
    base_manifest, runtime = carried(medium)
    base = lock.load(base_lock)
    request = Request(gpu="", model=str(folder), output=out, channel="host", model_only=True)
    places = parts.find(request, stack.named(base.stack), workshop, base.target)
    # As bundler.addition.lock_of, which needs more of the connected machine's libraries.
    locked = replace(
        base,
        created=int(time.time()),
        conda=(),
        wheels=(),
        builds=(),
        model=parts.pin(places, console).model,
        others=(),
        adapters=(),
        overlay=None,
    )
    taken = parts.fetch(places, locked, console)
    locked = parts.with_digests(locked, taken)
    manifest = manifest_of(base_manifest, locked, taken, f"{folder.name}-alone")
    openers = {
        bundle.RUNTIME_MEMBER: media.bytes_opener(runtime),
        bundle.LOCK_MEMBER: media.bytes_opener(locked.dump()),
        **{path: media.bytes_opener(data) for path, data in documents().items()},
        **parts.openers(locked, taken),
    }
    target = out / manifest.name
    media.write(target, manifest, openers, lambda _: None)
    print(json.dumps({"medium": str(target), "model": locked.model.name}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
