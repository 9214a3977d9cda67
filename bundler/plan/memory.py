"""The model against the target's memory."""

from bundler import fitting
from bundler.draft import Draft
from bundler.models import ModelSource
from bundler.plan.model import FitPart, Slice
from manifests import gpu
from manifests.console import size
from manifests.fit import Room, Shape, cpu_cache, fit_cpu
from manifests.lock import Model
from manifests.stack import Server


def judge(draft: Draft, model: Model, source: ModelSource | None = None) -> FitPart:
    """Whether a model fits by itself, as far as the target's memory is known.

    `source` is where it is from, the first model's by default.
    """
    target, server = draft.choice.target, draft.choice.stack.server
    weights = fitting.weights(model)
    shape = fitting.shape_of(model, source or draft.choice.places.model, draft.workshop.store)
    if target.gpus == (gpu.CPU,):
        return _without_gpu(shape, weights, server)
    if not target.gpu_memory:
        return FitPart(
            None,
            f"weights {size(weights)}; the GPU's memory is not known: name a product "
            "(--gpu a10) or give the host's report (--target)",
        )
    found = fitting.answer(shape, target, draft.choice.stack)
    if found is None:
        return FitPart(
            None, f"weights {size(weights)}; not known for this class of model", target.gpu_memory
        )
    sentence = found.text().splitlines()[0]
    return FitPart(
        fits=found.fits,
        sentence="; ".join((sentence, *found.refusal)),
        memory=found.room.gpu_memory,
        slices=_slices(found.room),
        alternatives=found.alternatives,
        figures=found.as_record(),
    )


def _without_gpu(shape: Shape | None, weights: int, server: Server) -> FitPart:
    memory, cache = weights + server.memory, cpu_cache(server.environment)
    needs = f"needs {size(memory)} of free memory, weights {size(weights)} of it"
    if shape is None or not cache:
        return FitPart(None, needs)
    found = fit_cpu(shape, memory=memory, cache=cache, beside=server.memory)
    held = f"a cache of {size(cache)} is enough for max_model_len {found.max_model_len}"
    sentence = "; ".join((needs, *(found.refusal or (held,))))
    return FitPart(None if found.fits else False, sentence, figures=found.as_record())


def _slices(room: Room) -> tuple[Slice, ...]:
    parts = (
        ("weights", room.weights),
        ("overhead", room.overhead),
        ("cache for requests", room.cache),
        ("left free", room.gpu_memory - room.usable),
    )
    return tuple(Slice(name, amount) for name, amount in parts if amount > 0)
