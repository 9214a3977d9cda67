"""The models and adapters of a bundle: where they come from, how they are pinned and packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bundler import fitting
from bundler.media import Opener
from bundler.models import ModelSource, resolve, stream
from bundler.models.adapter import AdapterSource, resolve_adapter
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import bundle, members
from manifests.bundle import Member, Part, ServedAdapter, ServedModel
from manifests.checkpoint import Checkpoint, Rules
from manifests.console import Console
from manifests.errors import UsageError
from manifests.fit import Shape, family
from manifests.lock import COMPUTED, Adapter, Lock, Model, Target
from manifests.names import check_path
from manifests.stack import Stack


@dataclass(frozen=True)
class Places:
    """Where each model and adapter comes from; the first model is served by default."""

    model: ModelSource
    others: tuple[ModelSource, ...] = ()
    adapters: tuple[AdapterSource, ...] = ()

    @property
    def models(self) -> tuple[ModelSource, ...]:
        """All models."""
        return (self.model, *self.others)


@dataclass(frozen=True)
class Pinned:
    """The models and adapters as a lock keeps them."""

    model: Model
    others: tuple[Model, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """A model or an adapter whose files are on this machine."""

    item: Model | Adapter  # every file with its sha256
    files: Mapping[str, Path]
    weights: int  # bytes
    checkpoint: Checkpoint | None = None  # None: an adapter


def find(request: Request, chosen: Stack, workshop: Workshop, target: Target) -> Places:
    """The sources that a request names; nothing is read or asked yet.

    `include` and `exclude` are about the first model. Raises UsageError for what is no source.
    """
    rules = Rules(
        architectures=chosen.architectures,
        pickle=request.allow_pickle,
        remote_code=request.allow_remote_code,
        include=request.include,
        exclude=request.exclude,
    )
    plain = replace(rules, include=(), exclude=())
    advice = partial(
        family.advice, target.gpu_memory, target.gpu_count or 1, chosen.server.arguments
    )
    asked = partial(
        resolve,
        store=workshop.store,
        endpoint=request.endpoint,
        offline=request.offline,
        advice=advice,
    )
    return Places(
        asked(request.model, rules=rules),
        tuple(asked(other, rules=plain) for other in request.others),
        tuple(
            resolve_adapter(
                text, workshop.store, endpoint=request.endpoint, offline=request.offline
            )
            for text in request.lora
        ),
    )


def pin(places: Places, console: Console) -> Pinned:
    """Look at all of them: revisions, files, digests.

    Raises what their sources raise, and UsageError where two have one name.
    """
    models = []
    for source in places.models:
        with console.stage("look at the model", source.reads()) as progress:
            models.append(source.lock(progress))
        _check_names(models)
    adapters, notes = [], []
    for adapter in places.adapters:
        pinned, note = adapter.lock(models[0].name)
        adapters.append(pinned)
        notes += [note] if note else []
        _check_names([*models, *adapters])
    return Pinned(models[0], tuple(models[1:]), tuple(adapters), tuple(notes))


def agrees(places: Places, locked: Lock) -> bool:
    """Whether a lock can be about these, as far as the names tell."""
    return (
        len(places.models) == len(locked.models)
        and len(places.adapters) == len(locked.adapters)
        and all(s.has(m) for s, m in zip(places.models, locked.models, strict=True))
        and all(s.has(a) for s, a in zip(places.adapters, locked.adapters, strict=True))
    )


def fetch(places: Places, locked: Lock, console: Console) -> tuple[Taken, ...]:
    """Get what was locked, in the lock's order; raises what the sources raise."""
    taken = []
    for source, model in zip(places.models, locked.models, strict=True):
        with console.stage(f"fetch the model {model.name}", weight(model)) as progress:
            snapshot = source.fetch(model, progress)
        judged = snapshot.checkpoint
        taken.append(Taken(snapshot.model, snapshot.files, judged.weight_bytes, judged))
    for place, adapter in zip(places.adapters, locked.adapters, strict=True):
        with console.stage(f"fetch the adapter {adapter.name}", weight(adapter)) as progress:
            files = place.fetch(adapter, progress)
        taken.append(Taken(adapter, files, weight(adapter)))
    return tuple(taken)


def weight(item: Model | Adapter) -> int:
    """Bytes of all files."""
    return sum(file.size for file in item.files)


def with_digests(locked: Lock, taken: Sequence[Taken]) -> Lock:
    """The lock with the sha256 of every file of its models."""
    models = [one.item for one in taken if isinstance(one.item, Model)]
    return replace(locked, model=models[0], others=tuple(models[1:]))


def served(model: Model) -> ServedModel:
    """A model as a manifest names it."""
    return ServedModel(model.name, model.source, model.revision, model.licence, model.risks)


def measured(locked: Lock, taken: Sequence[Taken]) -> tuple[ServedModel, ...]:
    """The models as a manifest names them, each with what its memory follows from."""
    judged = [one.checkpoint for one in taken if one.checkpoint is not None]
    return tuple(
        replace(served(model), shape=Shape.from_config(found.config, fitting.weights(model)))
        for model, found in zip(locked.models, judged, strict=True)
    )


def served_adapter(one: Adapter) -> ServedAdapter:
    """An adapter as a manifest names it."""
    return ServedAdapter(one.name, one.source, one.revision, one.base, one.rank, one.licence)


def of_lock(locked: Lock) -> tuple[Part, ...]:
    """The parts of a bundle that follows a lock, in the order of `Lock.parts`."""
    models = [served(model) for model in locked.models]
    return members.parts_of(models[0], models[1:], map(served_adapter, locked.adapters))


def members_of(locked: Lock) -> tuple[Member, ...]:
    """The archive's members of all models and adapters."""
    return tuple(
        Member(check_path(path), members.role_of(path), file.size, file.sha256)
        for part, item in zip(of_lock(locked), locked.parts, strict=True)
        for file in item.files
        for path in [part.start + file.path]
    )


def openers(locked: Lock, taken: Sequence[Taken]) -> dict[str, Opener]:
    """What opens each of those members; their bytes are compared while they are read."""
    return {
        part.start + file.path: partial(stream, one.files[file.path], file)
        for part, one in zip(of_lock(locked), taken, strict=True)
        for file in one.item.files
    }


def unpublished(locked: Lock) -> list[str]:
    """A sentence for each part whose digests nobody published."""
    return [
        f"{bundle.ADAPTER if isinstance(part, Adapter) else bundle.MODEL} {part.name}: "
        f"sha256 computed here, {_why_computed(part, computed)}"
        for part in locked.parts
        if (computed := [file.path for file in part.files if file.digest_from == COMPUTED])
    ]


def _why_computed(part: Model | Adapter, paths: Sequence[str]) -> str:
    if part.source.startswith("folder:"):
        return "from a local folder"
    return f"of what its Hub publishes no digest: {', '.join(paths)}"


def _check_names(parts: Sequence[Model | Adapter]) -> None:
    *before, last = parts
    for other in before:
        if other.name.casefold() == last.name.casefold():
            raise UsageError(
                f"two models or adapters are called {other.name}: {other.source}, {last.source}",
                why="requests choose among them by name, and folders are named by it",
                mend="name an adapter with --lora PLACE=NAME; rename a model's folder",
            )
