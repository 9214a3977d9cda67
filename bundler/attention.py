"""flash-attn beside a stack's own wheels: asked for, pinned with the lock, built with the bundle.

A stack whose serving path needs it gets it by itself. Every other bundle has it where the request
asks: built for the target's GPUs, or brought as a wheel, which is inspected like one of ours.
"""

from collections.abc import Sequence
from pathlib import Path

from bundler import conda
from bundler.request import Request
from bundler.workshop import Workshop
from manifests.console import Console
from manifests.errors import UsageError
from manifests.lock import Build, Lock, Target, Wheel
from manifests.stack import Cuda, FlashAttention, Stack
from wheelhouse import flashattn
from wheelhouse.sources import Sources


def wanted(request: Request, stack: Stack) -> bool:
    """Whether flash-attn goes into the bundle.

    Raises UsageError where the request contradicts itself, or the stack knows no flash-attn.
    """
    asked = request.with_flash_attn or request.flash_attn_wheel is not None
    if request.with_flash_attn and request.flash_attn_wheel is not None:
        raise UsageError(
            "--with-flash-attn and --flash-attn-wheel exclude each other",
            why="the one builds flash-attn, the other brings it",
            mend="leave one of them away",
        )
    if asked and stack.flash_attention is None:
        raise UsageError(
            f"the stack {stack.name} has no place for flash-attn",
            mend="leave --with-flash-attn and --flash-attn-wheel away, or choose another --stack",
        )
    return asked or (stack.flash_attention is not None and stack.flash_attention.needed)


def check(request: Request, stack: Stack, target: Target, workshop: Workshop) -> None:
    """Refuse early what could not be built, or does not fit.

    Raises UsageError or TargetError.
    """
    if not wanted(request, stack):
        return
    if request.flash_attn_wheel is not None:
        _brought(request.flash_attn_wheel, stack, target, workshop)
    else:
        flashattn.archs(target.gpus)
        flashattn.check_glibc(target.glibc)


def pin(
    request: Request,
    stack: Stack,
    target: Target,
    wheels: Sequence[Wheel],
    *,
    python: Path,
    sources: Sources,
    workshop: Workshop,
    scratch: Path,
) -> tuple[tuple[Wheel, ...], tuple[Build, ...]]:
    """What a lock gets: a wheel that was brought, or a recipe. Builds nothing.

    `wheels` are those of the serving environment, `python` an interpreter of the target's Python.
    Raises what `wheelhouse.flashattn.recipe` and `inspect` raise.
    """
    if not wanted(request, stack):
        return (), ()
    if request.flash_attn_wheel is not None:
        return (_brought(request.flash_attn_wheel, stack, target, workshop),), ()
    known, cuda = _facts(stack)
    recipe = flashattn.recipe(
        known.version,
        target,
        wheels,
        cuda=cuda.version,
        date=stack.resolution_date,
        python=python,
        sources=sources,
        store=workshop.store,
        scratch=scratch,
        offline=request.offline,
    )
    return (), (recipe,)


def build(
    locked: Lock, request: Request, sources: Sources, workshop: Workshop, console: Console
) -> tuple[Wheel, ...]:
    """The wheels of a lock's recipes: built before, continued where a run broke off, or built now.

    Raises what `wheelhouse.flashattn.obtain` raises.
    """

    def make_python(folder: Path) -> Path:
        with workshop.scratch("build-python") as scratch:
            conda.create(locked.runtime_conda, folder, workshop.store, scratch / "conda")
        return folder / "bin/python"

    builder = flashattn.Builder(
        workshop.root / "builds", workshop.store, sources, make_python, request.offline
    )
    made = []
    for recipe in locked.builds:
        title = f"build {recipe.name} for {', '.join(locked.target.gpus)}"
        with console.stage(title, recipe.units, "unit") as compiled:
            made.append(flashattn.obtain(recipe, locked.target, builder, compiled=compiled))
    return tuple(made)


def _brought(path: Path, stack: Stack, target: Target, workshop: Workshop) -> Wheel:
    known, cuda = _facts(stack)
    if not path.is_file():
        raise UsageError(f"{path}: no such file", mend="name a flash_attn-….whl that is there")
    return flashattn.inspect(
        path,
        target,
        version=known.version,
        torch=stack.versions["torch"],
        cuda=cuda.version,
        store=workshop.store,
    )


def _facts(stack: Stack) -> tuple[FlashAttention, Cuda]:
    assert stack.flash_attention is not None and stack.cuda is not None  # `wanted` has looked
    return stack.flash_attention, stack.cuda
