"""Inventories and coverages as tables that fit one screen."""

from collections.abc import Sequence

from manifests.kernels.coverage import Coverage, Row
from manifests.kernels.images import PTX, FileKernels, Inventory

#: Longest path that a table shows; longer ones lose their beginning.
_WIDTH = 52
#: More rows than this don't fit a screen: what is served everywhere is only counted then.
_ROWS = 30


def coverage_text(coverage: Coverage) -> str:
    """A row for each file, a column for each GPU, the worst first."""
    files: dict[str, list[Row]] = {}
    for row in coverage.rows:
        files.setdefault(row.path, []).append(row)
    if not files:
        return "\n".join(["no GPU code found", *_makers(coverage.makers)])
    order = sorted(files, key=lambda path: (-max(row.worst for row in files[path]), path))
    gaps = [path for path in order if any(row.uncovered or row.ptx for row in files[path])]
    shown = order if len(order) <= _ROWS else gaps
    lines = _aligned(
        [
            ("file", *coverage.gpus),
            *((_short(path), *(row.cell() for row in files[path])) for path in shown),
        ]
    )
    if len(shown) < len(order):
        lines.append(f"… and {len(order) - len(shown)} files with machine code for all of them")
    return "\n".join([*lines, *_ptx(coverage), *_makers(coverage.makers)])


def _ptx(coverage: Coverage) -> list[str]:
    """Which drivers compile the PTX that a row counts; nothing where there is none."""
    asked = {row.isa: row.driver for row in coverage.rows if row.ptx or row.too_new}
    given = f"; the target has {coverage.driver}" if coverage.driver else ""
    return [
        f"PTX {isa} is compiled by drivers from {driver or '(not known yet)'} on{given}"
        for isa, driver in sorted(asked.items())
    ]


def inventory_text(inventory: Inventory) -> str:
    """A row for each file: how many containers, and for which GPUs."""
    rows = [
        (_short(file.path), str(file.count), _architectures(file)) for file in inventory.with_code()
    ]
    if not rows:
        return "\n".join(["no GPU code found", *_makers(inventory.makers())])
    lines = _aligned([("file", "units", "machine code (sm_), PTX (compute_)"), *rows])
    return "\n".join([*lines, *_makers(inventory.makers())])


def _architectures(file: FileKernels) -> str:
    images = {image for group in file.containers for image in group.images}
    named = {
        str(image) + (f" (PTX {image.isa})" if image.kind == PTX else ""): image for image in images
    }
    return " ".join(
        sorted(named, key=lambda name: (named[name].kind != "sass", int(named[name].arch), name))
    )


def _makers(makers: dict[str, tuple[str, ...]]) -> list[str]:
    return [
        f"made on the target by {maker}: {_some(paths)}" for maker, paths in sorted(makers.items())
    ]


def _some(paths: Sequence[str]) -> str:
    first = ", ".join(map(_short, paths[:3]))
    return first if len(paths) <= 3 else f"{first} and {len(paths) - 3} more"


def _short(path: str) -> str:
    path = path.rpartition("site-packages/")[2]
    return path if len(path) <= _WIDTH else f"…{path[-_WIDTH + 1 :]}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
