"""A plan as one page: everything inline, nothing fetched, readable without the picture."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib import resources

from bundler.plan import picture
from bundler.plan.licences import Licence
from bundler.plan.markup import Rows, bullets, chip, pairs, paragraph, section, soft, table
from bundler.plan.model import (
    HERE,
    THERE,
    WEIGHTS,
    Coverage,
    FitPart,
    Group,
    Item,
    Plan,
    groups,
    total,
)
from bundler.plan.text import model_licence_text, packages_text, target_text, unread_text
from manifests.console import size

#: The order of colours; a group keeps its colour whatever its size.
_ORDER = (
    WEIGHTS,
    "CUDA libraries",
    "torch",
    "vllm",
    "other wheels",
    "Python and conda",
    "bundle's runtime",
)
#: The picture in its own units by class of the style sheet, which shows the one for the window.
_PICTURES = {"wide": (1200, 560), "middle": (560, 520), "tall": (340, 620)}
_PLACE = re.compile("@([A-Z_]+)@")


def page(plan: Plan) -> str:
    """The plan as an HTML document."""
    style, script = _part("page.css"), _part("page.js")
    name = plan.model.partition(" from ")[0]
    values = {
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": escape(f"Plan: {name}"),
        "HEADING": escape(name),
        "LEAD": escape(f"For {target_text(plan)}. {plan.stack.summary}. {plan.model}."),
        "BODY": "\n".join(_body(plan)),
    }
    return _PLACE.sub(lambda place: values[place[1]], _part("page.html"))


def _part(name: str) -> str:
    return (resources.files("bundler.plan") / name).read_text("utf-8")


def _hash(text: str) -> str:
    """A source expression of CSP level 2 for an inline text."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _body(plan: Plan) -> Iterator[str]:
    yield _facts(plan)
    yield section("What goes in", _picture(plan))
    yield '<div class="columns">'
    yield section("Stack", _stack(plan))
    yield section("Memory", _fit(plan.fit))
    yield section("GPU code", _kernels(plan))
    yield section("Disk", _disk(plan))
    if plan.compilers or plan.flash_attention:
        yield section("Compilers", _compilers(plan))
    yield section("Licences", _licences(plan))
    yield "</div>"
    if plan.notes:
        yield section("Notes", bullets(plan.notes))
    yield section("Everything", _everything(plan), kind="everything")


def _facts(plan: Plan) -> str:
    media = plan.volumes
    facts = [
        ("model", size(plan.model_bytes), f"{len(plan.items) - len(plan.packages)} files"),
        (
            "packages",
            size(sum(item.size for item in plan.packages)),
            f"{len(plan.packages)} as fetched",
        ),
        (
            "on the media",
            str(media.total) if media else "not known",
            f"{media.count} of at most {size(media.size)}" if media and media.size else "one file",
        ),
        ("disk, isolated host", str(plan.disk_of(THERE)), "medium and installation"),
    ]
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in facts
    )
    return f'<dl class="facts">{rows}</dl>'


def _picture(plan: Plan) -> str:
    shown = groups(plan.items)
    numbered = [(_colour(group), group) for group in shown]
    label = "Sizes as fetched; every area is proportional. The table below names everything."
    legend = "".join(
        f'<li class="g{number}"><svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" '
        f'height="1"/></svg>{escape(group.name)} <span>{size(group.size)}</span></li>'
        for number, group in numbered
    )
    maps = "".join(
        picture.svg(picture.tiles(numbered, *measures), *measures, label, kind)
        for kind, measures in _PICTURES.items()
    )
    return (
        f'<ul class="legend">{legend}</ul>{maps}<p id="detail" class="soft" aria-live="polite">'
        f"{escape(packages_text(plan))}</p>"
    )


def _colour(group: Group) -> int:
    return _ORDER.index(group.name)


def _stack(plan: Plan) -> str:
    rows = [
        ("taken", f"{plan.stack.name}: {plan.stack.reason}"),
        *(("", note) for note in plan.stack.notes),
        *((f"not {other.name}", "; ".join(other.reasons)) for other in plan.stack.others),
        ("serves", ", ".join(plan.stack.architectures)),
        *(("flavour", line) for line in plan.stack.flavours),
        ("conda packages", plan.channel),
        ("wheels", ", ".join(plan.index)),
        ("output", plan.output),
    ]
    return pairs(rows)


def _fit(fit: FitPart) -> str:
    words = {True: ("good", "fits"), False: ("bad", "does not fit"), None: ("look", "not known")}
    kind, word = words[fit.fits]
    body = f"<p>{chip(kind, word)} {escape(fit.sentence)}</p>"
    if fit.slices:
        whole = max(fit.memory, sum(part.bytes for part in fit.slices))
        bars, offset = [], 0.0
        for number, part in enumerate(fit.slices):
            width = part.bytes / whole * 1000
            bars.append(
                f'<rect class="b{number}" x="{offset:.2f}" width="{width:.2f}" height="32"/>'
            )
            offset += width
        told = ", ".join(f"{part.name} {size(part.bytes)}" for part in fit.slices)
        body += (
            '<svg class="bar" viewBox="0 0 1000 32" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(told)}">{"".join(bars)}</svg>'
        )
        legend = "".join(
            f'<li><svg viewBox="0 0 1 1" aria-hidden="true">'
            f'<rect class="b{number}" width="1" height="1"/></svg>{escape(part.name)} '
            f"<span>{size(part.bytes)}</span></li>"
            for number, part in enumerate(fit.slices)
        )
        body += f'<ul class="legend">{legend}</ul>'
    return body + bullets(fit.alternatives)


def _kernels(plan: Plan) -> str:
    body = paragraph(plan.kernels.source) + bullets(plan.kernels.problems)
    libraries = plan.kernels.libraries
    if not libraries:
        return body
    rows = [
        [
            escape(library.library) + ("" if library.needed else f" {soft('fast path')}"),
            *(chip(_mood(library), cell) for cell in library.verdicts.values()),
        ]
        for library in libraries
    ]
    return body + table(["library", *libraries[0].verdicts], [Rows(rows)])


def _mood(library: Coverage) -> str:
    return "good" if library.good else "bad" if library.needed else "look"


def _disk(plan: Plan) -> str:
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


def _compilers(plan: Plan) -> str:
    rows = [
        (compiler.name, f"{compiler.when}: {compiler.answer}, {compiler.how}")
        for compiler in plan.compilers
    ]
    if plan.flash_attention:
        rows.append(("flash-attn", plan.flash_attention))
    return pairs(rows)


def _licences(plan: Plan) -> str:
    unread = unread_text(plan)
    body = paragraph(model_licence_text(plan.model_licence)) + paragraph(unread)
    rows = [[escape(item.name), _licence(item.licence)] for item in plan.to_look_at]
    if rows:
        return body + table(["package", "stated"], [Rows(rows)])
    return body if unread else body + paragraph("None of the packages' needs a look.")


def _everything(plan: Plan) -> str:
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
        "" if item.group == WEIGHTS else _licence(item.licence),
    ]


def _licence(licence: Licence | None) -> str:
    if licence is None:
        return soft("not known yet")
    mark = f" {chip('look', licence.family)}" if licence.needs_look else ""
    return escape(licence.text or "not stated") + mark
