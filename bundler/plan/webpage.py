"""A plan as one page: everything inline, nothing fetched, readable without the picture."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib import resources

from bundler.plan import picture, sections
from bundler.plan.markup import bullets, section
from bundler.plan.model import GROUPS, THERE, Group, Plan, groups
from bundler.plan.text import packages_text, target_text
from manifests.console import size

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
    yield section("Stack", sections.stack(plan))
    yield section("Memory", sections.fit(plan))
    yield section("GPU code", sections.kernels(plan))
    yield section("Disk", sections.disk(plan))
    if plan.compilers or plan.flash_attention:
        yield section("Compilers", sections.compilers(plan))
    yield section("Licences", sections.licences(plan))
    yield "</div>"
    if notes := (*plan.notes, *plan.stack.conflicts):
        yield section("Notes", bullets(notes))
    yield section("Everything", sections.everything(plan), kind="everything")


def _facts(plan: Plan) -> str:
    media = plan.volumes
    facts = [
        (
            "models" if plan.further else "model",
            size(plan.model_bytes + sum(one.bytes for one in plan.further)),
            f"{len(plan.items) - len(plan.packages)} files",
        ),
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
        (
            "disk, isolated host",
            str(plan.disk_of(THERE)) if plan.disk else "not known",
            "medium and installation",
        ),
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
    return GROUPS.index(group.name)
