"""GPU code for the target: read from what was built before, otherwise what the stack promises."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bundler import building
from bundler.plan.model import BAD, GAP, GOOD, Coverage, Kernels
from manifests import gpu
from manifests.errors import IntegrityError
from manifests.kernels import Inventory, Row, absent, coverage, gate
from manifests.lock import Target
from manifests.overlay import Overlay
from manifests.stack import Component, Stack
from wheelhouse import remember

CODE, PTX, NONE = "machine code", "PTX", "none"


def of_target(
    stack: Stack, target: Target, folder: Path, overlay: Overlay | None = None
) -> Kernels:
    """What each library has for each of the target's GPUs.

    `folder` is the packed environment's; it need not exist. Of an `overlay` it has the libraries
    that are carried.
    """
    below = {one.name for one in overlay.provided} if overlay is not None else set()
    stack = replace(stack, components=tuple(c for c in stack.components if c.wheel not in below))
    if target.gpus == (gpu.CPU,):
        return Kernels("the target has no GPU")
    with suppress(OSError, ValueError, IntegrityError):
        return _measured(remember.recall(folder / building.KERNELS, Inventory), stack, target)
    source = "`bundle create` reads the libraries themselves"
    if not stack.components:
        return Kernels(f"{stack.name} does not say; {source}")
    rows = tuple(_promised(component, target.gpus) for component in stack.components)
    return Kernels(f"as {stack.name} states; {source}", rows)


def _promised(component: Component, gpus: tuple[str, ...]) -> Coverage:
    verdicts = {
        name: CODE if name in component.gpus else PTX if name in component.ptx else NONE
        for name in gpus
    }
    gap = BAD if component.needed else GAP
    return Coverage(
        f"{component.name} ({component.wheel})",
        verdicts,
        gap if NONE in verdicts.values() else GOOD,
        "" if component.needed else "fast path",
    )


def _measured(inventory: Inventory, stack: Stack, target: Target) -> Kernels:
    """One row for each library; one that stops `create` is BAD."""
    found = coverage(inventory, target.gpus, target.driver)
    judged = [*absent(found, stack.components), *gate(found, stack.components)]
    problems = tuple(item.sentence for item in judged if item.error)
    by_path: dict[str, list[Row]] = {}
    for row in found.rows:
        by_path.setdefault(row.path, []).append(row)
    libraries = tuple(
        Coverage(path, {row.gpu: row.cell() for row in rows}, _mood(path, rows, problems))
        for path, rows in by_path.items()
    )
    return Kernels("read from the libraries, which were built before", libraries, problems)


def _mood(path: str, rows: Iterable[Row], problems: Iterable[str]) -> str:
    if any(f"{path}: " in problem for problem in problems):
        return BAD
    return GOOD if all(row.worst.runs for row in rows) else GAP
