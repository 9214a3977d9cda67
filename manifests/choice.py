"""Which stack for which host: each is judged, and what speaks against it is kept as data."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from manifests import stack
from manifests.errors import TargetError, UsageError
from manifests.gpu import CPU
from manifests.lock import Target
from manifests.stack import Stack

_RELEASE = re.compile(r"\d{1,6}(\.\d{1,6}){0,4}", re.ASCII)


@dataclass(frozen=True)
class Verdict:
    """What one stack needs that the target has not, or may not have."""

    stack: str
    reasons: tuple[str, ...] = ()  # sentences without a subject: "needs glibc ≥ 2.31, …"
    notes: tuple[str, ...] = ()  # the same, of what is not known or concerns some models only

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


@dataclass(frozen=True)
class Choice:
    """The stack that `--stack auto` takes, and what was said about each, newest first."""

    stack: Stack
    verdicts: tuple[Verdict, ...]


def _nothing(_one: Stack) -> tuple[str, ...]:
    """What is known beside against a stack."""
    return ()


Against = Callable[[Stack], tuple[str, ...]]


def choose(target: Target, architecture: str = "", against: Against = _nothing) -> Choice:
    """The newest stack that fits.

    Where the target's driver is not known, the stack that runs on most drivers is taken: a newer
    driver runs it too, and nobody has to carry a second bundle across.
    `architecture` is of the model's config.json; empty where it plays no part. `against` gives
    further reasons against a stack, as a Verdict has them.

    Raises TargetError saying of each stack why it does not fit, UsageError for a release that is
    not one.
    """
    stacks = newest_first()
    said = verdicts(target, architecture, against)
    fitting = [one for one, verdict in zip(stacks, said, strict=True) if verdict.fits]
    if not fitting:
        # Of equals the oldest: it asks least of the host.
        nearest = min(reversed(said), key=lambda verdict: len(verdict.reasons))
        raise TargetError(
            f"no stack of this release fits {described(target)}",
            findings=[f"{one.stack} {reason}" for one in said for reason in one.reasons],
            mend=f"the nearest is {nearest.stack}: mend what it lacks on the target, "
            "or describe another target",
        )
    if not target.driver:
        fitting.sort(key=lambda one: release(driver_needed(one, target.gpus) or "0"))
    return Choice(fitting[0], said)


def verdicts(
    target: Target, architecture: str = "", against: Against = _nothing
) -> tuple[Verdict, ...]:
    """What is to be said about each stack of this release, newest first.

    Raises UsageError for a driver, glibc or Python that is not a release.
    """
    judged = ((one, judge(one, target, architecture)) for one in newest_first())
    return tuple(
        replace(verdict, reasons=(*verdict.reasons, *more)) if (more := against(one)) else verdict
        for one, verdict in judged
    )


def judge(one: Stack, target: Target, architecture: str = "") -> Verdict:
    """What is to be said about one stack; empty fields of the target are not known.

    Raises UsageError as `verdicts` does.
    """
    reasons = [
        *_gpus(one, target.gpus),
        *_driver(one, target),
        *_glibc(one, target.glibc),
        *_listed("Python", one.python, target.python),
        *_listed("machines of type", (one.arch,), target.arch),
        *_model(one, architecture),
    ]
    return Verdict(one.name, tuple(reasons), tuple(_notes(one, target)) if not reasons else ())


def newest_first() -> tuple[Stack, ...]:
    """The stacks of this release by their server's release, newest first."""
    return tuple(
        sorted(
            stack.stacks().values(), key=lambda one: (release(one.version), one.name), reverse=True
        )
    )


def driver_needed(one: Stack, gpus: Sequence[str]) -> str:
    """The lowest driver that runs the stack on these GPUs, "525.60.13"; empty without a GPU."""
    if one.cuda is None:
        return ""
    compiled = any(part.needed and set(part.ptx) & set(gpus) for part in one.components)
    return one.cuda.driver_for_ptx if compiled else one.cuda.driver


def described(target: Target) -> str:
    """The target in one line, as far as it is known."""
    parts = [
        ", ".join(target.gpus),
        f"driver {target.driver}" if target.driver else "",
        f"glibc {target.glibc}" if target.glibc else "",
        f"Python {target.python}" if target.python else "",
        target.arch,
    ]
    return ", ".join(part for part in parts if part)


def release(text: str) -> tuple[int, ...]:
    """A release as numbers that compare: "535.104" is above "525.60.13".

    Raises UsageError.
    """
    if not _RELEASE.fullmatch(text):
        raise UsageError(f"{text!r} is not a release", mend="for example 535.104, 2.31 or 3.11")
    return tuple(int(part) for part in text.split("."))


def _gpus(one: Stack, asked: Sequence[str]) -> Iterator[str]:
    missing = [gpu for gpu in asked if gpu not in one.gpus]
    if missing and CPU in asked:
        yield "needs an NVIDIA GPU, the target has none"
    elif missing and one.cuda is None:
        yield f"is for hosts without a GPU, the target has {', '.join(asked)}"
    else:
        for gpu in missing:
            why = one.unserved.get(gpu, f"it serves {', '.join(one.gpus)}")
            yield f"does not serve {gpu}: {why}"


def _driver(one: Stack, target: Target) -> Iterator[str]:
    needed = driver_needed(one, target.gpus)
    if needed and target.driver and release(target.driver) < release(needed):
        because = "" if one.cuda and needed == one.cuda.driver else " to compile PTX"
        yield f"needs driver ≥ {needed}{because}, the target has {target.driver}"


def _glibc(one: Stack, has: str) -> Iterator[str]:
    if has and release(has) < release(one.glibc):
        yield f"needs glibc ≥ {one.glibc}, the target has {has}"


def _listed(what: str, served: Sequence[str], asked: str) -> Iterator[str]:
    if asked and asked not in served:
        yield f"serves {what} {', '.join(served)}, not {asked}"


def _model(one: Stack, architecture: str) -> Iterator[str]:
    if architecture and architecture not in one.architectures:
        yield f"does not serve models of the architecture {architecture}"


def _notes(one: Stack, target: Target) -> Iterator[str]:
    needed = driver_needed(one, target.gpus)
    if needed and not target.driver:
        yield f"needs driver ≥ {needed}; the target's is not known (--driver)"
    if not target.glibc:
        yield f"needs glibc ≥ {one.glibc}; the target's is not known (--glibc)"
    if one.cuda is None or release(target.driver or "0") >= release(one.cuda.driver_for_ptx):
        return
    for part in one.components:
        compiled = [gpu for gpu in target.gpus if gpu in part.ptx]
        if compiled and not part.needed:
            yield (
                f"{part.name} on {', '.join(compiled)} needs driver ≥ {one.cuda.driver_for_ptx}: "
                "the driver compiles that code from PTX"
            )
