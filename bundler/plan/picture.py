"""The treemap as SVG: every area is proportional to bytes, groups lie together.

Presentation is left to the page's style sheet: its Content-Security-Policy allows no style
attributes. What SVG positions by is allowed: x, y, width, height, font-size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bundler.plan.model import Group, Item
from bundler.plan.treemap import Box, squarify
from manifests.console import size

#: Items smaller than this share of the picture are drawn together; the table names them all.
_SMALLEST = 0.0006
#: Sizes of type in the picture's units, the largest that fits is taken; the second line is smaller.
_FONTS = (26, 20, 16, 13, 11)
_SECOND, _SECOND_LEAST = 0.8, 11
#: Width of an average letter of a wide sans-serif, in ems; measured in a browser by a test.
_LETTER = 0.64
_MARGIN = 6.0
_LINE = 1.25
#: Fewer letters than this say nothing.
_LETTERS = 5
#: What every name of a group has in common only takes room.
_PREFIXES = ("nvidia-", "opentelemetry-")


@dataclass(frozen=True)
class Tile:
    """One rectangle of the picture."""

    name: str
    size: int
    detail: str
    box: Box
    group: int  # number of the group, which decides the colour


def tiles(groups: Sequence[tuple[int, Group]], width: float, height: float) -> list[Tile]:
    """Lay out numbered groups (largest first) and their items. Items of no known size are left out.

    `width` and `height` are the picture's, in its own units.
    """
    shown = [(number, group) for number, group in groups if group.size]
    whole = sum(group.size for _, group in shown)
    boxes = squarify([group.size for _, group in shown], Box(0, 0, width, height))
    found = []
    for (number, group), box in zip(shown, boxes, strict=True):
        parts = _parts(group, whole)
        placed = squarify([part.size for part in parts], box)
        found += [
            Tile(part.name, part.size, _detail(part, group, whole), place, number)
            for part, place in zip(parts, placed, strict=True)
        ]
    return found


def svg(found: Sequence[Tile], width: int, height: int, label: str, kind: str) -> str:
    """The picture; `kind` is a class of the style sheet, `label` says what is drawn."""
    drawn = "".join(_drawn(tile, first=not number) for number, tile in enumerate(found))
    return (
        f'<svg class="map {kind}" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="{escape(label)}">{drawn}</svg>'
    )


@dataclass(frozen=True)
class _Part:
    name: str
    size: int
    item: Item | None = None  # None: several small ones
    count: int = 1


def _parts(group: Group, whole: int) -> list[_Part]:
    large = [item for item in group.items if item.size >= whole * _SMALLEST]
    small = [item for item in group.items[len(large) :] if item.size]
    parts = [_Part(item.name, item.size, item) for item in large]
    if len(small) == 1:
        parts.append(_Part(small[0].name, small[0].size, small[0]))
    elif small:
        name = f"{len(small)} smaller" if large else f"{group.name} ({len(small)})"
        parts.append(_Part(name, sum(item.size for item in small), count=len(small)))
    return sorted(parts, key=lambda part: -part.size)


def _detail(part: _Part, group: Group, whole: int) -> str:
    """What is shown of a part when it is pointed at."""
    about = [group.name]
    about.append(f"{size(part.size)} as fetched, {part.size / whole:.1%}")
    if part.item is not None:
        about.append(f"{part.item.installed} installed")
        if part.item.licence is not None and part.item.licence.text:
            about.append(part.item.licence.text)
    version = f" {part.item.version}" if part.item and part.item.version else ""
    return f"{part.name}{version}: {' · '.join(about)}"


def _drawn(tile: Tile, *, first: bool) -> str:
    box, detail = tile.box, escape(tile.detail)
    return (
        f'<g class="tile g{tile.group}" role="img" tabindex="{0 if first else -1}" '
        f'aria-label="{detail}" data-bytes="{tile.size}"><title>{detail}</title>'
        f'<rect x="{box.x:.3f}" y="{box.y:.3f}" width="{box.width:.3f}" height="{box.height:.3f}"/>'
        f"{''.join(_labels(tile))}</g>"
    )


def _labels(tile: Tile) -> Iterator[str]:
    """The name, and below it the size, as far as they fit."""
    box = tile.box
    room = box.width - 2 * _MARGIN
    name, font = _name(tile.name, room, box.height - 2 * _MARGIN)
    if not name:
        return
    y = box.y + _MARGIN + font
    yield _text(box.x + _MARGIN, y, font, name)
    second = max(font * _SECOND, _SECOND_LEAST)
    text = size(tile.size)
    if len(text) * second * _LETTER <= room and font * _LINE * 2 <= box.height - 2 * _MARGIN:
        yield _text(box.x + _MARGIN, y + font * _LINE, second, text)


def _name(name: str, width: float, height: float) -> tuple[str, int]:
    """The name in the largest type that fits, cut short in the smallest; empty where none does."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    fonts = [font for font in _FONTS if font * _LINE <= height]
    for font in fonts:
        # Large type is for large areas, not for short names.
        suits = font == fonts[-1] or font * _LINE * 3 <= height
        if suits and len(name) * font * _LETTER <= width:
            return name, font
    if not fonts:
        return "", 0
    letters = int(width / (fonts[-1] * _LETTER))
    return (f"{name[: letters - 1]}…", fonts[-1]) if letters >= _LETTERS else ("", 0)


def _text(x: float, y: float, font: float, text: str) -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" font-size="{font:g}">{escape(text)}</text>'
