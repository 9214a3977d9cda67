"""The bill of materials: every component of a bundle, as all papers have it.

Data alone. `bundler.papers.gathering` makes it from a lock, a bundle on its media or an installed
release, and the three give the same bill. It has what a lock names: compile caches, which
`bundle create --caches` takes from a rehearsal, are the manifest's members alone.
"""

from dataclasses import dataclass

from bundler.plan.licences import Licence
from manifests.lock import PUBLISHED, Build, Derived, ModelFile, Target

#: Kinds of components.
WHEEL, CONDA, MODEL, ADAPTER, CODE = "wheel", "conda", "model", "adapter", "code"
#: Where a component is used. PROVIDED: the isolated host has it already, below an overlay.
ENVIRONMENT, RUNTIME, MODELS, PROVIDED = "environment", "runtime", "models", "provided"
_UNSTATED = Licence("", "unknown")


@dataclass(frozen=True)
class Text:
    """A licence text (or notice) that a component carries."""

    path: str  # below the component: "licenses/LICENSE"
    sha256: str  # of the bytes
    content: str  # decoded as UTF-8, what is none replaced


@dataclass(frozen=True)
class Component:
    """One thing that somebody published, or that was built here from it."""

    ref: str  # unique in the bill: "environment/wheel/torch@2.13.0"
    kind: str
    scope: str
    name: str  # normalised (PEP 503) for wheels
    version: str  # commit id for models
    purl: str  # https://github.com/package-url/purl-spec
    sha256: str  # as carried; models and our code: of their listing; provided: of RECORD; or empty
    filename: str = ""
    size: int = 0  # bytes; 0 where the source does not say
    url: str = ""  # public, without secrets
    digest_from: str = PUBLISHED
    derived: Derived | None = None  # repaired or built: its origin, and each change
    build: Build | None = None  # compiled from source
    declared: str = ""  # what its metadata states, whole; empty: nothing
    licence: Licence = _UNSTATED
    texts: tuple[Text, ...] = ()
    requires: tuple[str, ...] = ()  # refs of components that it needs, sorted
    files: tuple[ModelFile, ...] = ()  # of models and adapters
    base: str = ""  # of a model or an adapter: what it was made from, as its card says


@dataclass(frozen=True)
class Bill:
    """All components, sorted by `ref`, and what they make together."""

    name: str  # that `bundle create` gives by itself: a lock does not know of --name
    lock_sha256: str
    created: int  # seconds since the epoch, from the lock
    stack: str
    target: Target
    components: tuple[Component, ...]
