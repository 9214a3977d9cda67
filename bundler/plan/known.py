"""What is known about a bundle's content at the time of a plan."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from bundler import addition, overlay, parts
from bundler.draft import Draft
from bundler.locking import follow_lock
from manifests import lock
from manifests.console import Console
from manifests.errors import SourceError
from manifests.lock import Adapter, Lock, Model, Wheel
from manifests.overlay import Overlay
from wheelhouse.lockwheels import AUTO, lock_wheels

_UNRESOLVED = "not resolved yet; a dry run downloads nothing: `bundle plan` resolves them"
_KEPT = (
    "as resolved before for this target, without conda packages and the bundle's runtime, "
    "about 0.1 GB: `bundle plan` resolves them"
)


@dataclass(frozen=True)
class Known:
    """A lock, or as much of one as there is without a download."""

    model: Model
    how: str  # where the packages are known from, or why they are not
    locked: Lock | None = None
    wheels: tuple[Wheel, ...] = ()
    others: tuple[Model, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    overlay: Overlay | None = None


def from_lock(locked: Lock, how: str) -> Known:
    """Everything: a lock was read or made."""
    return Known(locked.model, how, locked, locked.wheels, locked.others, locked.adapters)


def without_download(draft: Draft, console: Console) -> Known:
    """What a lock (`--lock`) or a kept resolution says; a model is looked at as `bundle lock` does.

    Raises UsageError for a lock that is missing or differs from the request, and what looking at
    the model raises.
    """
    request, choice = draft.request, draft.choice
    if request.lock is not None:
        return from_lock(follow_lock(request, choice, request.lock), f"from {request.lock}")
    pinned = parts.pin(choice.places, console)
    model, others, adapters = pinned.model, pinned.others, pinned.adapters
    if choice.base is not None:
        how = f"{request.extends} has them; this bundle brings models alone"
        return from_lock(addition.lock_of(choice.base, pinned, 0), how)
    with contextlib.suppress(SourceError):
        known = lock_wheels(
            choice.stack,
            AUTO,
            python=Path(),  # offline, it is never started
            target=choice.target,
            sources=draft.sources,
            store=draft.workshop.store,
            scratch=Path(),
            below=choice.below,
            offline=True,
        )
        over = overlay.of(choice.inventory, known.provided)
        return Known(model, _KEPT, None, known.wheels, others, adapters, over)
    return Known(model, _UNRESOLVED, others=others, adapters=adapters)


def lock_of(known: Known, draft: Draft) -> Lock:
    """The lock, or one that names only what is known."""
    return known.locked or Lock(
        schema=lock.SCHEMA,
        created=0,
        target=draft.choice.target,
        stack=draft.choice.stack.name,
        channel="",
        flavour="",
        conda=(),
        runtime_conda=(),
        wheels=known.wheels,
        runtime_wheels=(),
        model=known.model,
        others=known.others,
        adapters=known.adapters,
        overlay=known.overlay,
    )
