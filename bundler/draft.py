"""A request after looking at what it needs, before anything long."""

from dataclasses import dataclass

from bundler import caches, delta
from bundler.locking import Choice
from bundler.request import Request
from bundler.workshop import Workshop
from wheelhouse.sources import Sources


@dataclass(frozen=True)
class Draft:
    """What `bundle create` and `bundle plan` start from."""

    request: Request
    choice: Choice
    sources: Sources
    workshop: Workshop
    base: delta.Base | None = None  # of a delta
    carried: tuple[caches.Chosen, ...] = ()
