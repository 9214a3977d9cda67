"""Make a lock: decide everything, pin it by digest, build nothing."""

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bundler import addition, attention, conda, fitting, hostchannel, overlay, parts, whole
from bundler.models import selection
from bundler.request import Request
from bundler.target import check_processor, describe
from bundler.workshop import Workshop
from manifests import choice as stack_choice
from manifests import lock, stack
from manifests.console import Console
from manifests.errors import TargetError, UsageError, from_oserror
from manifests.inventory import Inventory
from manifests.lock import CondaPackage, Lock, Model, Target
from manifests.stack import Stack
from wheelhouse.fetch import Fetcher
from wheelhouse.lockwheels import AUTO, lock_requirements, lock_wheels
from wheelhouse.sources import Sources
from wheelhouse.stubs import NOTHING, Below, below
from wheelhouse.upgrade import AFRESH, Upgrade

#: What bundlectl imports in every runtime, beside what the stack lists for reading bundles: a stack
#: of one's own need not know of it.
_OWN_RUNTIME = ("h11==0.16.0",)
#: At most 33 bits: eleven octal digits are all that a tar header has.
_EPOCH = re.compile(r"[0-9]{1,9}|[1-7][0-9]{9}")


@dataclass(frozen=True)
class Choice:
    """What follows from the request alone, before anything is asked of anybody."""

    target: Target
    stack: Stack
    places: parts.Places
    notes: tuple[str, ...] = ()  # what was assumed of the target, a sentence each
    base: Lock | None = None  # of the release that a bundle of models alone extends
    inventory: Inventory | None = None  # of the host's environment, below an overlay

    @property
    def below(self) -> Below:
        """What the host's environment offers."""
        return below(self.inventory) if self.inventory is not None else NOTHING

    def check_memory(self, models: Sequence[Model], workshop: Workshop) -> None:
        """Refuse models that were looked at and can't fit the target's GPUs.

        Raises TargetError.
        """
        pairs = zip(models, self.places.models, strict=True)
        shapes = [(one, fitting.shape_of(one, place, workshop.store)) for one, place in pairs]
        fitting.require(shapes, self.target, self.stack)


def choose(request: Request, workshop: Workshop) -> Choice:
    """Target, stack and the model's source.

    Raises UsageError or TargetError for a request that can't be fulfilled.
    """
    addition.check(request)
    if request.model_only:
        base = addition.release_lock(request)
        chosen = addition.stack_of(request, base)
        places = parts.find(request, chosen, workshop, base.target)
        return Choice(base.target, chosen, places, base=base)
    found = overlay.read(request)
    request = overlay.filled(request, found)
    described = describe(request)
    asked = overlay.placed(described.target, found, reported=described.report is not None)
    if request.stack != "auto":
        chosen = stack.named(request.stack)
        overlay.check(chosen, found)
    else:
        chosen = stack_choice.choose(asked, against=overlay.against(found)).stack
    if not set(asked.gpus) <= set(chosen.gpus):
        raise UsageError(
            f"the stack {chosen.name} does not serve {', '.join(asked.gpus)}",
            mend=f"it serves {', '.join(chosen.gpus)}; leave --stack away to have one chosen",
        )
    host = request.channel == conda.HOST
    python = asked.python or (_running_python() if host else chosen.python[0])
    if python not in chosen.python or (host and python != _running_python()):
        raise UsageError(
            f"Python {python} does not go with the stack {chosen.name}"
            if python not in chosen.python
            else f"--channel host is made from this Python {_running_python()}, not {python}",
            why=f"the stack takes Python {' or '.join(chosen.python)}",
            mend="run `bundle` under one of them, or use --channel with a conda channel"
            if host
            else f"choose --python {chosen.python[0]}",
        )
    glibc = asked.glibc or (hostchannel.host_glibc() if host else chosen.glibc)
    if _numbers(glibc) < _numbers(chosen.glibc):
        raise TargetError(
            f"the target has glibc {glibc}, the stack {chosen.name} needs {chosen.glibc}",
            mend="use a newer distribution there, or another --stack",
        )
    if reasons := stack_choice.judge(chosen, asked).reasons:
        raise TargetError(
            f"the stack {chosen.name} does not fit {stack_choice.described(asked)}",
            findings=[f"it {reason}" for reason in reasons],
            mend="leave --stack away to have one chosen, or mend what is lacking on the target",
        )
    check_processor(described, chosen)
    attention.check(request, chosen, replace(asked, glibc=glibc, python=python), workshop)
    places = parts.find(request, chosen, workshop, asked)
    target = replace(asked, glibc=glibc, python=python)
    return Choice(target, chosen, places, described.notes, inventory=found)


def make_lock(
    request: Request,
    choice: Choice,
    sources: Sources,
    workshop: Workshop,
    console: Console,
    older: Lock | None = None,
    upgrades: tuple[str, ...] = (),
    *,
    must_fit: bool = True,
) -> Lock:
    """Solve, resolve, and pin the models; with `must_fit` only those that the target can hold.

    With an `older` lock only the wheels that `upgrades` names (requirements) change, and what they
    require; conda packages, flavour and all other wheels stay.

    Raises SourceError, TargetError, UsageError, IntegrityError or FilesystemError.
    """
    if upgrades and choice.inventory is not None:
        raise UsageError(
            "--upgrade-package: not with --overlay",
            why="what is carried follows from what the host has, as a whole",
            mend="make the lock again with `bundle lock --overlay`",
        )
    created = epoch()
    notes: list[str] = []
    # The model first: it is where most mistakes are, and the quickest to look at.
    pinned = parts.pin(choice.places, console)
    notes += [*pinned.notes, *choice.below.notes]
    if must_fit:
        choice.check_memory((pinned.model, *pinned.others), workshop)
    if choice.base is not None:
        _tell(notes, console)
        return addition.lock_of(choice.base, pinned, created)
    target, chosen = choice.target, choice.stack
    python = f"python {target.python}.*"
    with workshop.scratch("lock") as scratch:
        with console.stage("solve the conda environment"):
            source = open_channel(request.channel, scratch)
            if older is not None:
                packages, runtime = older.conda, older.runtime_conda
            else:
                specs = (python, *chosen.conda) if choice.inventory is None else chosen.conda
                packages = _solve(source, specs, target, workshop, request.offline)
                runtime = _solve(source, (python,), target, workshop, request.offline)
        with console.stage("fetch the conda packages") as progress:
            fetcher = Fetcher(sources, workshop.store, offline=request.offline)
            conda.fetch({*packages, *runtime}, source, fetcher, progress)
        with console.stage(f"resolve the wheels of {chosen.name}"):
            interpreter = scratch / "python"
            conda.create(runtime, interpreter, workshop.store, scratch / "conda")
            resolved = lock_wheels(
                chosen,
                older.flavour if older is not None else AUTO,
                python=interpreter / "bin/python",
                target=target,
                sources=sources,
                store=workshop.store,
                scratch=_made(scratch / "wheels"),
                upgrade=Upgrade(older.wheels, upgrades) if older is not None else AFRESH,
                below=choice.below,
                offline=request.offline,
                tell=notes.append,
            )
            runtime_wheels = lock_requirements(
                tuple(dict.fromkeys((*chosen.runtime, *_OWN_RUNTIME))),
                date=chosen.resolution_date,
                python=interpreter / "bin/python",
                target=target,
                sources=sources,
                store=workshop.store,
                scratch=_made(scratch / "runtime-wheels"),
                upgrade=Upgrade(older.runtime_wheels, upgrades) if older is not None else AFRESH,
                offline=request.offline,
                tell=notes.append,
            )
        brought, builds = attention.pin(
            request,
            chosen,
            target,
            resolved.wheels,
            python=interpreter / "bin/python",
            sources=sources,
            workshop=workshop,
            scratch=_made(scratch / "flash-attn"),
        )
    _tell(notes, console)
    return Lock(
        schema=lock.SCHEMA,
        created=created,
        target=target,
        stack=chosen.name,
        channel=source.name,
        flavour=resolved.flavour,
        conda=packages,
        runtime_conda=runtime,
        wheels=(*resolved.wheels, *brought),
        runtime_wheels=runtime_wheels,
        model=pinned.model,
        builds=builds,
        others=pinned.others,
        adapters=pinned.adapters,
        overlay=overlay.of(choice.inventory, resolved.provided),
    )


def _tell(notes: list[str], console: Console) -> None:
    for note in dict.fromkeys(notes):
        console.say(f"note: {note}")


def follow_lock(request: Request, choice: Choice, path: Path) -> Lock:
    """Read a lock that the request must agree with.

    Raises UsageError where they differ.
    """
    found = lock.load(path)
    asked = {
        "--stack": (choice.stack.name if request.stack != "auto" else found.stack, found.stack),
        "--gpu": (",".join(choice.target.gpus), ",".join(found.target.gpus)),
        "--python": (request.python or found.target.python, found.target.python),
        "--glibc": (request.glibc or found.target.glibc, found.target.glibc),
    }
    for option, (wanted, locked) in asked.items():
        if wanted != locked:
            raise UsageError(
                f"{path}: was made for {option} {locked}, asked for is {wanted}",
                mend=f"leave {option} away, or make another lock with `bundle lock`",
            )
    overlay.follow(found, choice.inventory, str(path))
    if found.target.arch != choice.target.arch:
        raise UsageError(
            f"{path}: was made for {found.target.arch}, the target is {choice.target.arch}",
            why="other requirements hold there, and other wheels",
            mend="make another lock with `bundle lock`",
        )
    asks = attention.wanted(request, choice.stack)
    if asks and not found.builds and not any(w.name == "flash-attn" for w in found.wheels):
        raise UsageError(
            f"{path}: holds no flash-attn, and the request asks for it",
            mend="make another lock with `bundle lock --with-flash-attn` or --flash-attn-wheel",
        )
    missing = {text.partition("==")[0] for text in _OWN_RUNTIME}
    missing -= {wheel.name for wheel in found.runtime_wheels}
    if missing:
        raise UsageError(
            f"{path}: the bundle's runtime lacks {', '.join(sorted(missing))}",
            why="the lock was made by an earlier version of this program",
            mend="make another lock with `bundle lock`",
        )
    if not parts.agrees(choice.places, found):
        made = ", ".join(part.source for part in found.parts)
        given = ", ".join((request.model, *request.others, *request.lora))
        raise UsageError(
            f"{path}: was made for --model {made}, asked for is {given}",
            mend="name that model, or make another lock with `bundle lock`",
        )
    names = [file.path for file in found.model.files]
    if difference := selection.differs(names, request.include, request.exclude):
        raise UsageError(
            f"{path}: {difference}",
            mend="leave that flag away, or make another lock with `bundle lock` and the flag",
        )
    return found


def write_lock(made: Lock, path: Path) -> None:
    """Write a lock whole or not at all.

    Raises FilesystemError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise from_oserror(error, "writing the lock", path) from None
    whole.write(path, made.dump(), "writing the lock")


def epoch() -> int:
    """The time of a lock: now, or SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/).

    Raises UsageError where that is no number that a tar archive can hold.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and not _EPOCH.fullmatch(text):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text!r}",
            mend="set it to whole seconds since the epoch (`date +%s`), or unset it",
        )
    return int(text) if text else int(time.time())


def open_channel(value: str, scratch: Path) -> conda.Channel:
    """The channel that `--channel` names; `host` is made in `scratch`."""
    return conda.channel(value, lambda: hostchannel.build(scratch / "host-channel"))


def _solve(
    source: conda.Channel,
    specs: tuple[str, ...],
    target: Target,
    workshop: Workshop,
    offline: bool,
) -> tuple[CondaPackage, ...]:
    return conda.solve(source, specs, target, workshop.repodata, offline=offline)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _running_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
