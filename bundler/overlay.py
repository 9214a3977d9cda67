"""A bundle on top of a Python environment that the isolated host has: what its inventory decides.

Python, C library and machine of the target follow from it. What the host has and the stack can use
is *provided*; all else is carried, and hides what the host has under the same name.
"""

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain

from packaging.version import InvalidVersion, Version

from bundler import building, gates
from bundler.building import Contents
from bundler.gates import Beneath
from bundler.request import Request
from manifests import inventory as inventories
from manifests import overlay
from manifests.errors import TargetError, UsageError
from manifests.inventory import Inventory
from manifests.lock import Lock, Target, Wheel
from manifests.overlay import Overlay, Provided
from manifests.stack import Stack
from wheelhouse import stubs

#: Names whose shared libraries one process can't have twice, so that a carried one would not hide
#: the host's: all that a stack's `versions` says of these has to be there as it says.
_ONCE = ("torch", "torchvision", "torchaudio", "triton", "cuda-*", "nvidia-*")
#: How the local versions of torch's builds start (https://download.pytorch.org/whl/).
_BUILDS = ("cu", "cpu", "rocm", "xpu")
_MEND = (
    "choose a --stack that was made for what the host has (`bundle stacks`), "
    "or leave --overlay away: the bundle then brings an environment of its own"
)


def read(request: Request) -> Inventory | None:
    """The inventory that a request names.

    Raises UsageError where it can't be understood, or goes with nothing else that was asked.
    """
    if request.overlay is None:
        return None
    if request.with_flash_attn:
        raise UsageError(
            "--with-flash-attn: not with --overlay",
            why="it is built against the torch that the bundle carries",
            mend="leave it away, or bring a wheel with --flash-attn-wheel",
        )
    return inventories.load(request.overlay)


def filled(request: Request, found: Inventory | None) -> Request:
    """The request with what the inventory says of Python, and of the C library where nothing else.

    Raises UsageError where --python contradicts it.
    """
    if found is None:
        return request
    python, glibc = found.interpreter.minor, found.platform.glibc
    if request.python not in ("", python):
        raise UsageError(
            f"--python {request.python}: the environment in {request.overlay} has Python {python}",
            mend="leave --python away, or take the inventory of another environment",
        )
    if not (request.glibc or request.os_release or request.target):
        request = replace(request, glibc=".".join(glibc.split(".")[:2]))
    return replace(request, python=python)


def placed(target: Target, found: Inventory | None, *, reported: bool) -> Target:
    """The target on the inventory's kind of machine; `reported`: a report of it says the kind too.

    Raises TargetError where they differ, and where the interpreter loads no published wheels.
    """
    if found is None:
        return target
    machine, soabi = found.platform.machine, found.interpreter.soabi
    if reported and machine != target.arch:
        raise TargetError(
            f"the inventory is of a machine of type {machine}, the target is {target.arch}",
            mend="take inventory and report of the same host",
        )
    wanted = f"cpython-{target.python.replace('.', '')}-{machine}-linux-gnu"
    if soabi != wanted:
        raise TargetError(
            f"the host's Python loads {soabi} modules, published wheels have {wanted} ones",
            why="it is no plain build of CPython for Linux with glibc",
            mend="name another environment of the host, or leave --overlay away",
        )
    return replace(target, arch=machine)


def against(found: Inventory | None) -> Callable[[Stack], tuple[str, ...]]:
    """What an inventory has against a stack, as `manifests.choice` words it."""

    def reasons(stack: Stack) -> tuple[str, ...]:
        if found is None:
            return ()
        there = found.by_name()
        return tuple(
            f"was made for {name} {version}, the host's environment has {there[name].version}"
            for name, version in stack.versions.items()
            if name in there
            and any(fnmatchcase(name, pattern) for pattern in _ONCE)
            and not _same(there[name].version, version, stack)
        )

    return reasons


def _same(found: str, wanted: str, stack: Stack) -> bool:
    """Whether a version will do; a local build of torch names what it is for, "2.11.0+cu130"."""
    try:
        version = Version(found)
    except InvalidVersion:
        return False
    built_for = f"cu{stack.cuda.version.replace('.', '')}" if stack.cuda is not None else "cpu"
    local = version.local or ""
    other = local.startswith(_BUILDS) and local != built_for
    return Version(version.public) == Version(wanted) and not other


def check(stack: Stack, found: Inventory | None) -> None:
    """Refuse a stack that was made for something else than what the host has.

    Raises TargetError naming each distribution with both versions.
    """
    if reasons := against(found)(stack):
        raise TargetError(
            f"the stack {stack.name} can't be laid over the host's environment",
            findings=[f"it {reason}" for reason in reasons],
            mend=_MEND,
        )


def of(found: Inventory | None, names: tuple[str, ...]) -> Overlay | None:
    """What a lock keeps of an inventory: the distributions of the closure that it provides."""
    if found is None:
        return None
    there = found.by_name()
    provided = (there[name] for name in sorted(names))
    return Overlay(
        found.interpreter.version,
        found.interpreter.soabi,
        tuple(Provided(one.name, one.version, one.record_sha256) for one in provided),
    )


def follow(locked: Lock, found: Inventory | None, where: str) -> None:
    """Refuse a lock that was not made for this inventory, or for none; `where` names the lock.

    Raises UsageError, or TargetError naming what the environment has otherwise.
    """
    if (locked.overlay is None) != (found is None):
        made = "an" if locked.overlay is not None else "no"
        raise UsageError(
            f"{where}: was made with {made} --overlay",
            mend="give the inventory that it was made with, as --overlay"
            if found is None
            else "leave --overlay away, or make another lock with `bundle lock --overlay`",
        )
    if locked.overlay is None or found is None:
        return
    if other := overlay.differences(locked.overlay, found):
        raise TargetError(
            f"{where}: was made for another environment than the inventory tells of",
            findings=[finding.text for finding in other],
            mend="make another lock with `bundle lock --overlay`",
        )


def contents(
    locked: Lock, wheels: tuple[Wheel, ...], stack: Stack, found: Inventory | None
) -> Contents:
    """The environment that serves; of an overlay only what goes on top of the host's.

    `wheels` are the lock's, and those built of its recipes.
    """
    serving = building.serving(locked.conda, wheels, stack.winning_libraries)
    if locked.overlay is None or found is None:
        return serving
    brought = {package.name for package in locked.conda}
    python = tuple(package for package in locked.runtime_conda if package.name not in brought)
    provided = stubs.below(found).named(one.name for one in locked.overlay.provided)
    return replace(serving, python=python, provided=provided)


def beneath(locked: Lock, found: Inventory | None) -> Beneath:
    """What the gates take as being there: provided distributions, and the host's libraries."""
    if locked.overlay is None or found is None:
        return gates.NOTHING
    names = frozenset(one.name for one in locked.overlay.provided)
    libraries = (one.libraries for one in found.distributions if one.name in names)
    return Beneath(names, frozenset(chain(found.platform.libraries, *libraries)))
