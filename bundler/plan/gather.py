"""Put a plan together from what others say."""

from collections.abc import Iterable, Iterator

from bundler import building, overlay, parts
from bundler.draft import Draft
from bundler.plan import disk, items, kernels, memory, reasons
from bundler.plan.known import Known, lock_of
from bundler.plan.licences import of_metadata, of_text
from bundler.plan.model import RUNTIME, Further, Item, Need, Plan, Volumes
from bundler.plan.papers import Papers, at_hand, inside
from bundler.saving import Saving, expected
from manifests import gpu
from manifests.console import Progress, ignore_progress
from manifests.lock import Adapter, Lock, Model
from wheelhouse.sources import public_place

_NOT_BUILT = "how little a delta carries is known once its environment was built (bundle create)"
#: What a run that may not ask anybody says at its end.
PROMISE = "nothing was downloaded or written (--dry-run)"


def plan(
    draft: Draft,
    known: Known,
    *,
    volume_size: int = 0,
    ask: bool = True,
    progress: Progress = ignore_progress,
) -> Plan:
    """Say what would be made of a request.

    `volume_size` is the most bytes of a volume, 0 for one file. With `ask`, licences of wheels
    that are not here are asked of the index, and `progress` hears of the bytes.
    """
    choice, request, workshop = draft.choice, draft.request, draft.workshop
    locked = lock_of(known, draft)
    on_gpu = choice.target.gpus != (gpu.CPU,)
    serving, runtime = _packages(draft, locked, ask and not request.offline, progress)
    environment = overlay.contents(locked, locked.wheels, choice.stack, choice.inventory)
    place = building.folder(environment, workshop)
    media: Volumes | None = None
    saved: Saving | None = None
    needs: tuple[Need, ...] = ()
    if serving or choice.base is not None:
        built = disk.built(environment, workshop, serving)
        small = disk.built(
            building.runtime(locked.runtime_conda, locked.runtime_wheels), workshop, runtime
        )
        saved = _saving(draft, locked, built)
        media = disk.on_media(built, small, locked, volume_size, saved)
        needs = tuple(disk.needs(locked, workshop, built, small, media, gpu=on_gpu))
    return Plan(
        model=f"{known.model.name} {_origin(known.model)}",
        model_bytes=parts.weight(known.model),
        model_licence=of_text(known.model.licence),
        target=choice.target,
        gpu_asked=request.gpu,
        stack=reasons.stack_part(draft),
        channel=public_place(request.channel),
        index=draft.sources.public(),
        output=str(request.output),
        resolution=known.how,
        items=_sorted((*items.of_parts(locked), *serving, *runtime)),
        kernels=kernels.of_target(choice.stack, choice.target, place, locked.overlay),
        fit=memory.judge(draft, known.model),
        volumes=media,
        disk=needs,
        compilers=choice.stack.compilers,
        flash_attention=reasons.flash_attention(draft, locked),
        notes=(
            *choice.notes,
            *draft.sources.ignored,
            *(f"can run code: {risk}" for risk in locked.risks),
            *([_NOT_BUILT] if draft.base is not None and saved is None else []),
        ),
        promise="" if ask else PROMISE,
        further=tuple(_further(draft, locked)),
        beneath=reasons.beneath(draft, locked),
        delta=saved,
    )


def _saving(draft: Draft, locked: Lock, serving: disk.Built) -> Saving | None:
    """What a delta would carry; None for a whole bundle, and before its environment was built."""
    if draft.base is None or not (serving.done or draft.choice.base is not None):
        return None
    manifest, members = draft.base.manifest, parts.members_of(locked)
    return expected(manifest, draft.base.digest, serving.entries, members)


def _further(draft: Draft, locked: Lock) -> Iterator[Further]:
    """What comes beside the default model."""
    for model, source in zip(locked.others, draft.choice.places.others, strict=True):
        fit = memory.judge(draft, model, source)
        licence = of_text(model.licence)
        yield Further(model.name, _origin(model), parts.weight(model), licence, fit)
    for adapter in locked.adapters:
        text = f"adapter of rank {adapter.rank} for {adapter.base} {_origin(adapter)}"
        licence = of_text(adapter.licence)
        yield Further(adapter.name, text, parts.weight(adapter), licence, None)


def _origin(part: Model | Adapter) -> str:
    return f"from {part.source}, revision {part.revision[:12]}"


def _packages(
    draft: Draft, locked: Lock, ask: bool, progress: Progress
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """The serving environment's packages and the runtime's."""
    sources, store = draft.sources, draft.workshop.store
    wheels = (*locked.wheels, *locked.runtime_wheels)
    here = at_hand(wheels, sources, store)
    texts = {digest: inside(path) for digest, path in here.items()}
    missing = [wheel for wheel in wheels if wheel.sha256 not in here]
    texts |= Papers(sources, draft.workshop.root / "metadata", offline=not ask).of(
        missing, progress
    )
    licences = {digest: of_metadata(text) for digest, text in texts.items()}
    serving = (
        *items.of_wheels(locked.wheels, licences, here),
        *items.of_conda(locked.conda),
    )
    runtime = (
        *items.of_wheels(locked.runtime_wheels, licences, here, RUNTIME),
        *items.of_conda(locked.runtime_conda, RUNTIME),
    )
    return serving, runtime


def _sorted(found: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(found, key=lambda item: (-item.size, item.name)))
