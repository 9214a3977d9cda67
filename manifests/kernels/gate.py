"""The gate: which gaps stop a bundle, and which are worth a sentence.

Which containers a run reaches is decided by host code, so this is a judgement: a stack says which
libraries do which job, and whether its serving path needs it; of all others, only those that were
built for one list of GPUs throughout (torch, flash-attn) are taken at their word.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from manifests.kernels.coverage import Coverage, Row
from manifests.stack import Component


@dataclass(frozen=True, order=True)
class Finding:
    """One sentence; a note where it is no error."""

    error: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def gate(coverage: Coverage, components: Sequence[Component] = ()) -> list[Finding]:
    """What is wrong, errors first.

    Errors: a needed component none of whose libraries serves a GPU; a needed library that serves a
    GPU only in part although it is uniform; and a uniform library with a gap that no component
    names, unless all of its code is for single GPUs. PTX counts as code where the driver is known
    to compile it, or is not known. Every other gap is a note, and so is what runs from PTX alone.
    """
    found = [*_unserved(coverage, components)]
    for row in coverage.rows:
        owners = [component for component in components if _owns(component, row.path)]
        if row.uncovered:
            sentence = f"{row.path}: {_gap(row, coverage.driver)}"
            found.append(Finding(_incomplete(row, owners), sentence))
        elif row.ptx:
            found.append(Finding(False, f"{row.path}: {_compiled(row, coverage.driver)}"))
    return sorted(dict.fromkeys(found), key=lambda finding: not finding.error)


def absent(coverage: Coverage, components: Iterable[Component]) -> list[Finding]:
    """Needed components of which nothing was found that has GPU code: a build for the CPU.

    Only for a place that should hold a whole environment.
    """
    return [
        Finding(True, f"{component.name} ({component.wheel}): no library with GPU code is there")
        for component in components
        if component.needed and not any(_owns(component, row.path) for row in coverage.rows)
    ]


def _owns(component: Component, path: str) -> bool:
    """Patterns are of paths in a wheel; in an environment, its site-packages stands before."""
    return any(
        fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
        for pattern in component.libraries
    )


def _unserved(coverage: Coverage, components: Iterable[Component]) -> Iterator[Finding]:
    for component in components:
        for gpu in coverage.gpus if component.needed else ():
            rows = [r for r in coverage.rows if r.gpu == gpu and _owns(component, r.path)]
            if rows and not any(row.covered for row in rows):
                driver = coverage.driver
                gaps = "; ".join(f"{row.path}: {_gap(row, driver)}" for row in rows)
                yield Finding(True, f"{component.name} ({component.wheel}) can't run: {gaps}")


def _incomplete(row: Row, owners: Sequence[Component]) -> bool:
    """Whether a library as a whole was meant to have what it lacks.

    Single units for newer GPUs only are fast paths in uniform libraries too, as in cuSOLVER.
    """
    gap = row.uniform and bool(not row.covered or row.older or row.too_new)
    if owners:
        return gap and row.covered > 0 and any(owner.needed for owner in owners)
    return gap and not row.restricted


def _gap(row: Row, driver: str) -> str:
    if row.too_new:
        return (
            f"{row.gpu} finds only PTX {row.isa} in {_share(row, row.too_new)}, "
            f"which driver {driver} can't compile; {_asked(row)}"
        )
    reasons = {
        "for older GPUs": row.older,
        "for exactly one other GPU or family": row.specific,
        "for newer GPUs": row.newer,
    }
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{row.gpu} has no code in {_share(row, row.uncovered)} ({listed})"


def _compiled(row: Row, driver: str) -> str:
    known = f"driver {driver} compiles it" if driver else _asked(row)
    return f"{row.gpu} finds only PTX {row.isa} in {_share(row, row.ptx)}; {known} at first use"


def _asked(row: Row) -> str:
    if row.driver:
        return f"a driver from {row.driver} on compiles it"
    return f"a driver that knows PTX {row.isa} compiles it"


def _share(row: Row, count: int) -> str:
    unit = "unit" if row.total == 1 else "units"
    return f"its {row.total} {unit}" if row.total == count else f"{count} of {row.total} {unit}"
