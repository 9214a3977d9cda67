"""Why this stack and no other, and what happens about FlashAttention."""

from bundler import overlay
from bundler.draft import Draft
from bundler.plan.model import Other, StackPart
from manifests import choice
from manifests.errors import BundleError
from manifests.lock import Lock
from wheelhouse.flashattn import outlook, this_machine

#: How many of the provided distributions are named.
_NAMED = 4


def stack_part(draft: Draft) -> StackPart:
    """The stack, why it was taken, and what speaks against each of the others."""
    chosen, target = draft.choice.stack, draft.choice.target
    said = choice.verdicts(target, against=overlay.against(draft.choice.inventory))
    return StackPart(
        name=chosen.name,
        summary=chosen.summary,
        reason=_reason(draft, said),
        notes=choice.judge(chosen, target).notes,
        others=tuple(
            Other(verdict.stack, verdict.reasons or ("fits too",))
            for verdict in said
            if verdict.stack != chosen.name
        ),
        conflicts=chosen.conflicts,
        architectures=chosen.architectures,
        flavours=tuple(
            f"{flavour.name}: {flavour.summary}"
            + (f" (where a source has {', '.join(flavour.needs)})" if flavour.needs else "")
            for flavour in chosen.flavours
        ),
    )


def _reason(draft: Draft, said: tuple[choice.Verdict, ...]) -> str:
    if draft.request.stack != "auto":
        return "asked for with --stack"
    newest = next((verdict.stack for verdict in said if verdict.fits), "")
    if newest == draft.choice.stack.name:
        return "the newest that fits the target"
    return "fits the target and runs on the oldest driver, as the target's is not known (--driver)"


def flash_attention(draft: Draft, locked: Lock) -> str:
    """Whether flash-attn is built, and why; empty where the stack has nothing to do with it."""
    request, stack = draft.request, draft.choice.stack
    if request.flash_attn_wheel is not None:
        return f"your wheel {request.flash_attn_wheel.name} is inspected and taken"
    gpus = draft.choice.target.gpus
    for build in locked.builds:
        return _built_here(build.version, gpus)
    wanted = stack.flash_attention
    if wanted is None:
        return ""
    if request.with_flash_attn or wanted.needed:
        return _built_here(wanted.version, gpus)
    return f"not built: {wanted.reason} (--with-flash-attn asks for it)"


def _built_here(version: str, gpus: tuple[str, ...]) -> str:
    try:
        return outlook(version, gpus, this_machine()).text()
    except BundleError as error:
        return f"flash-attn {version} can't be built here: {error.what}"


def beneath(draft: Draft, locked: Lock) -> str:
    """What an overlay leaves to the host's environment, and what it carries; empty for others."""
    over, inventory = locked.overlay, draft.choice.inventory
    if over is None or inventory is None:
        return ""
    # Those that the stack was made for come first; they are what a person looks for.
    order = [*draft.choice.stack.versions, *(one.name for one in over.provided)]
    named = sorted(over.provided, key=lambda one: order.index(one.name))
    few = ", ".join(f"{one.name} {one.version}" for one in named[:_NAMED])
    there = inventory.by_name()
    hidden = [
        f"{wheel.name} {wheel.version} for {there[wheel.name].version}"
        for wheel in locked.wheels
        if wheel.name in there
    ]
    text = f"provided by the host: {len(over.provided)} distributions ({few}, …), "
    text += f"carried: {len(locked.wheels)}"
    return text + (f"; carried in place of the host's: {', '.join(hidden)}" if hidden else "")
