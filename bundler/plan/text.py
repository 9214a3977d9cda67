"""A plan on one screen: about 45 lines of at most 100 columns."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from bundler.plan.licences import UNKNOWN, Licence
from bundler.plan.model import (
    CONDA_PACKAGE,
    HERE,
    THERE,
    WEIGHTS,
    WHEEL,
    Amount,
    Plan,
    groups,
    total,
)
from manifests.console import size

WIDTH = 100
_MARGIN = 10
#: How many are named where they have the same to say.
_LIBRARIES, _PACKAGES = 6, 2


def render(plan: Plan) -> str:
    """The plan as a person reads it."""
    lines = []
    for name, text in _rows(plan):
        first, *rest = wrap(text, WIDTH - _MARGIN, break_on_hyphens=False) or [""]
        lines.append(f"{name:>8}  {first}")
        lines += [" " * _MARGIN + line for line in rest]
    return "\n".join([*lines, *([plan.promise] if plan.promise else [])])


def target_text(plan: Plan) -> str:
    """The isolated host in one line."""
    target, names = plan.target, ", ".join(plan.target.gpus)
    asked = plan.gpu_asked if plan.gpu_asked not in ("", names) else ""
    memory = f"{target.gpu_memory / (1 << 30):g} GiB" if target.gpu_memory else ""
    known = ", ".join(part for part in (asked, memory) if part)
    count = f"{target.gpu_count} x " if target.gpu_count > 1 else ""
    parts = (
        f"{count}{names}" + (f" ({known})" if known else ""),
        f"driver {target.driver}" if target.driver else "",
        f"glibc {target.glibc}",
        f"Python {target.python}",
    )
    return ", ".join(part for part in parts if part)


def packages_text(plan: Plan) -> str:
    """How many packages, and how much there is to fetch and to install."""
    if not plan.packages:
        return plan.resolution
    amount = size(sum(item.size for item in plan.packages))
    installed = total(item.installed for item in plan.packages)
    return f"{len(plan.packages)}, {amount} as fetched, {installed} installed; {plan.resolution}"


def licences_text(plan: Plan) -> str:
    """The licences that a person should read, by what is stated."""
    stated: dict[tuple[str, str], list[str]] = {}
    for item in plan.to_look_at:
        if item.licence is not None:
            stated.setdefault((item.licence.family, item.licence.text), []).append(item.name)
    lines = []
    for (family, text), names in sorted(stated.items(), key=lambda pair: -len(pair[1])):
        said = text or "nothing stated"
        lines.append(f"{family}: {said} ({_some(names, _PACKAGES)})")
    return "; ".join(lines)


def unread_text(plan: Plan) -> str:
    """How many licences are not known, and why."""
    unread = [item.kind for item in plan.packages if item.licence is None]
    wheels = sum(1 for item in plan.packages if item.kind == WHEEL)
    counts = {
        f"of {wheels} wheels: not known before the fetch": unread.count(WHEEL),
        "conda packages: stated in conda-meta/ once installed": unread.count(CONDA_PACKAGE),
    }
    return "; ".join(f"{count} {what}" for what, count in counts.items() if count)


def model_licence_text(licence: Licence) -> str:
    """The model's licence, and whether it needs a look."""
    if licence.family == UNKNOWN and not licence.text:
        return "the model states none: ask its publisher"
    return f"model: {licence.text} ({licence.family})" + (
        ", needs a look" if licence.needs_look else ""
    )


def _rows(plan: Plan) -> Iterator[tuple[str, str]]:
    weights = f" ({size(plan.model_bytes)})" if plan.model_bytes else ""
    yield "model", f"{plan.model}{weights}"
    for one in plan.further:
        yield "and", f"{one.name} {one.text} ({size(one.bytes)})"
    yield "target", target_text(plan)
    yield "stack", f"{plan.stack.name}: {plan.stack.summary}"
    yield "why", plan.stack.reason
    for note in plan.stack.notes:
        yield "", note
    for other in plan.stack.others:
        yield "not", f"{other.name}: {'; '.join(other.reasons)}"
    yield "sources", f"conda packages: {plan.channel}; wheels: {', '.join(plan.index)}"
    if not plan.packages:
        for line in plan.stack.flavours:
            yield "flavour", line
    if plan.beneath:
        yield "overlay", plan.beneath
    yield "packages", packages_text(plan)
    for line in _tables(plan):
        yield "", line
    yield from _kernels(plan)
    yield "fit", plan.fit.sentence
    for alternative in plan.fit.alternatives[:3]:
        yield "", alternative
    for one in plan.further:
        if one.fit is not None:
            yield "", f"{one.name}: {one.fit.sentence}"
    if plan.flash_attention:
        yield "flash", plan.flash_attention
    for compiler in plan.compilers:
        yield "compiler", f"{compiler.name}: {compiler.answer}, {compiler.how}"
    yield "licences", model_licence_text(plan.model_licence)
    for one in plan.further:
        yield "", f"{one.name}: {model_licence_text(one.licence)}"
    for line in (licences_text(plan), unread_text(plan)):
        if line:
            yield "", line
    if plan.delta is not None:
        yield "delta", plan.delta.text()
    if plan.volumes is not None:
        yield "volumes", str(plan.volumes)
    yield from _disk(plan)
    yield "output", plan.output
    for note in plan.notes:
        yield "note", note


def _tables(plan: Plan) -> Iterator[str]:
    """Groups with as many of their largest packages as a line takes; all are in the sums."""
    for group in groups(plan.items):
        what = "files" if group.name == WEIGHTS else "packages"
        line = f"{size(group.size):>9}  {group.name}, {group.count} {what}"
        if group.name == WEIGHTS:
            yield line
            continue
        separator, more = ": ", ", …"
        for item in group.items:
            named = f"{separator}{item.name} {size(item.size)}"
            if len(line) + len(named) + len(more) > WIDTH - _MARGIN:
                line += more
                break
            line, separator = line + named, ", "
        yield line


def _kernels(plan: Plan) -> Iterator[tuple[str, str]]:
    """Libraries that have the same for every GPU share a line."""
    yield "kernels", plan.kernels.source
    for problem in plan.kernels.problems:
        yield "", f"stops `bundle create`: {problem}"
    alike: dict[str, list[str]] = {}
    for library in plan.kernels.libraries:
        verdicts = ", ".join(f"{gpu} {verdict}" for gpu, verdict in library.verdicts.items())
        name = library.library + (f" [{library.remark}]" if library.remark else "")
        alike.setdefault(verdicts, []).append(name)
    for verdicts, names in alike.items():
        yield "", f"{verdicts}: {_some(names, _LIBRARIES)}"


def _some(names: Sequence[str], most: int) -> str:
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def _disk(plan: Plan) -> Iterator[tuple[str, str]]:
    for side, title in ((HERE, "here"), (THERE, "isolated host")):
        places: dict[str, Amount] = {}
        for need in plan.disk:
            if need.side == side:
                places[need.place] = places.get(need.place, Amount(0)) + need.amount
        if places:
            parts = ", ".join(f"{place} {amount}" for place, amount in places.items())
            yield "disk", f"{title} {plan.disk_of(side)}: {parts}"
