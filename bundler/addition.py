"""A bundle of models alone, for an installation that has a release of the same stack."""

from dataclasses import replace

from bundler.inspecting.subject import find_or_lock
from bundler.parts import Pinned
from bundler.request import Request
from manifests import stack
from manifests.errors import UsageError
from manifests.lock import Lock
from manifests.stack import Stack


def check(request: Request) -> None:
    """Refuse flags that say what the extended release has decided.

    Raises UsageError.
    """
    if request.model_only != (request.extends is not None):
        raise UsageError(
            "--model-only and --for belong together",
            mend="bundle create --model-only --model B --for BUNDLE_OR_LOCK",
        )
    if not request.model_only:
        return
    decided = {
        "--gpu": request.gpu,
        "--target": request.target,
        "--driver": request.driver,
        "--python": request.python,
        "--glibc": request.glibc,
        "--os-release": request.os_release,
        "--with-flash-attn": request.with_flash_attn,
        "--flash-attn-wheel": request.flash_attn_wheel,
        "--lock": request.lock,
        "--overlay": request.overlay,
    }
    given = [option for option, value in decided.items() if value]
    if given:
        raise UsageError(
            f"{', '.join(given)}: not with --model-only",
            why="the release that --for names says it",
            mend="leave it away",
        )


def release_lock(request: Request) -> Lock:
    """The lock of the release that is extended: a bundle's, an installed release's, or a file.

    Raises UsageError where it holds no release, and what reading it raises.
    """
    assert request.extends is not None
    if not request.extends.exists():
        raise UsageError(
            f"--for {request.extends}: no such file or folder",
            mend="name the bundle that is installed, or its bundle.lock",
        )
    subject = find_or_lock(request.extends)
    if subject.lock is None:
        raise UsageError(
            f"--for {request.extends}: its lock can't be read",
            findings=subject.notes,
            mend="name the bundle.lock of the installed release (PREFIX/current/bundle.lock)",
        )
    if not subject.lock.wheels:
        raise UsageError(
            f"--for {request.extends}: it holds models alone",
            mend="name the bundle that brought the environment",
        )
    return subject.lock


def stack_of(request: Request, base: Lock) -> Stack:
    """The stack of the extended release.

    Raises UsageError where another one was asked for.
    """
    chosen = stack.named(request.stack if request.stack != "auto" else base.stack)
    if chosen.name != base.stack:
        raise UsageError(
            f"--for {request.extends}: has the stack {base.stack}, asked for is {chosen.name}",
            mend="leave --stack away",
        )
    return chosen


def lock_of(base: Lock, pinned: Pinned, created: int) -> Lock:
    """The lock of an addition: the release's target, stack and runtime, and other models."""
    return replace(
        base,
        created=created,
        conda=(),
        wheels=(),
        builds=(),
        overlay=None,
        model=pinned.model,
        others=pinned.others,
        adapters=pinned.adapters,
    )
