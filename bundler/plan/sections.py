"""The sections of the page below the picture."""

from html import escape

from bundler.plan.licences import Licence
from bundler.plan.markup import Rows, bullets, chip, pairs, paragraph, soft, table
from bundler.plan.model import (
    BAD,
    FILE,
    GAP,
    GOOD,
    HERE,
    THERE,
    WHEEL,
    FitPart,
    Item,
    Plan,
    groups,
    total,
)
from bundler.plan.text import model_licence_text, unread_text
from manifests.console import size

_FITS = {True: ("good", "fits"), False: ("bad", "does not fit"), None: ("look", "not known")}
_CHIPS = {GOOD: "good", GAP: "look", BAD: "bad"}


def stack(plan: Plan) -> str:
    """The stack, why it and no other, and where everything comes from."""
    rows = [
        ("taken", f"{plan.stack.name}: {plan.stack.reason}"),
        *(("", note) for note in plan.stack.notes),
        *((f"not {other.name}", "; ".join(other.reasons)) for other in plan.stack.others),
        ("serves", ", ".join(plan.stack.architectures)),
        *(("flavour", line) for line in plan.stack.flavours),
        *([("overlay", plan.beneath)] if plan.beneath else []),
        ("conda packages", plan.channel),
        ("wheels", ", ".join(plan.index)),
        ("output", plan.output),
    ]
    return pairs(rows)


def fit(plan: Plan) -> str:
    """The model against the GPU's memory, with a bar to scale."""
    part = plan.fit
    kind, word = _FITS[part.fits]
    body = f"<p>{chip(kind, word)} {escape(part.sentence)}</p>"
    body += (_bar(part) if part.slices else "") + bullets(part.alternatives)
    further = [(one.name, one.fit) for one in plan.further if one.fit is not None]
    return body + "".join(_further_fit(name, fit) for name, fit in further)


def _further_fit(name: str, part: FitPart) -> str:
    kind, word = _FITS[part.fits]
    body = f"<p>{escape(name)}: {chip(kind, word)} {escape(part.sentence)}</p>"
    return body + (_bar(part) if part.slices else "")


def _bar(part: FitPart) -> str:
    """A GPU's memory as a bar, and what the colours mean."""
    whole = max(part.memory, sum(piece.bytes for piece in part.slices))
    rects, keys, x = "", "", 0.0
    for number, piece in enumerate(part.slices):
        width = piece.bytes / whole * 1000
        rects += f'<rect class="b{number}" x="{x:.2f}" width="{width:.2f}" height="32"/>'
        keys += (
            f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect class="b{number}" width="1" '
            f'height="1"/></svg>{escape(piece.name)} <span>{size(piece.bytes)}</span></li>'
        )
        x += width
    told = ", ".join(f"{piece.name} {size(piece.bytes)}" for piece in part.slices)
    return (
        '<svg class="bar" viewBox="0 0 1000 32" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(told)}">{rects}</svg><ul class="legend">{keys}</ul>'
    )


def kernels(plan: Plan) -> str:
    """GPU code, a row for each library."""
    body = paragraph(plan.kernels.source) + bullets(plan.kernels.problems)
    libraries = plan.kernels.libraries
    if not libraries:
        return body
    rows = [
        [
            escape(library.library) + (f" {soft(library.remark)}" if library.remark else ""),
            *(chip(_CHIPS[library.mood], cell) for cell in library.verdicts.values()),
        ]
        for library in libraries
    ]
    return body + table(["library", *libraries[0].verdicts], [Rows(rows)])


def disk(plan: Plan) -> str:
    """Volumes, and the room that each side needs."""
    if not plan.disk:
        return paragraph(plan.resolution)
    bodies = [
        Rows(
            [
                [escape(f"{title}: {need.place}"), escape(need.what), str(need.amount)]
                for need in plan.disk
                if need.side == side
            ],
            [f"{title}, together", "", str(plan.disk_of(side))],
        )
        for side, title in ((HERE, "here"), (THERE, "isolated host"))
    ]
    return paragraph(f"Volumes: {plan.volumes}.") + table(
        ["where", "what", "size"], bodies, numbers={2}
    )


def compilers(plan: Plan) -> str:
    """Compilers that the server would start, and flash-attn."""
    rows = [
        (compiler.name, f"{compiler.when}: {compiler.answer}, {compiler.how}")
        for compiler in plan.compilers
    ]
    if plan.flash_attention:
        rows.append(("flash-attn", plan.flash_attention))
    return pairs(rows)


def licences(plan: Plan) -> str:
    """Licences that a person should read."""
    unread = unread_text(plan)
    body = paragraph(model_licence_text(plan.model_licence))
    for one in plan.further:
        body += paragraph(f"{one.name}: {model_licence_text(one.licence)}")
    body += paragraph(unread)
    rows = [[escape(item.name), _licence(item.licence)] for item in plan.to_look_at]
    if rows:
        return body + table(["package", "stated"], [Rows(rows)])
    return body if unread else body + paragraph("None of the packages' needs a look.")


def everything(plan: Plan) -> str:
    """Every item, by group."""
    bodies = [
        Rows(
            [_row(item) for item in group.items],
            [
                f"{escape(group.name)}, together",
                "",
                "",
                size(group.size),
                str(total(item.installed for item in group.items)),
                "",
            ],
        )
        for group in groups(plan.items)
    ]
    return table(
        ["name", "version", "group", "as fetched", "installed", "licence"],
        bodies,
        numbers={3, 4},
        caption="≈ marks estimates. Sizes of 0 are not published.",
    )


def _row(item: Item) -> list[str]:
    return [
        escape(item.name),
        escape(item.version),
        escape(item.group),
        size(item.size),
        str(item.installed),
        "" if item.kind == FILE else _licence(item.licence, item.kind),
    ]


def _licence(licence: Licence | None, kind: str = WHEEL) -> str:
    if licence is None:
        return soft("not known yet" if kind == WHEEL else "see conda-meta/")
    mark = f" {chip('look', licence.family)}" if licence.needs_look else ""
    return escape(licence.text or "not stated") + mark
