"""The layers of the stack as a picture: the model stands on top, the host below all."""

from collections.abc import Iterator, Sequence
from html import escape

from manifests.approval import DRIVER, HOST, Layer
from manifests.approvalwords import plain

#: In the picture's own units.
_WIDTH, _HEIGHT, _GAP = 300, 36, 3
_MARGIN = 12
_NAME, _KIND = 14, 10  # sizes of type
#: Attributes, not a style sheet: a page's style does not reach into its pictures in every program.
_LOOKS = {
    "inside": 'fill="#e8eef6" stroke="#35588f" stroke-width="1.2"',
    "outside": 'fill="#fff" stroke="#55606b" stroke-width="1.2" stroke-dasharray="5 3"',
}
_FONT = 'font-family="sans-serif"'
_INK, _SOFT = "#14181d", "#55606b"
#: Width of an average letter of a wide sans-serif, in ems.
_LETTER = 0.62


def svg(layers: Sequence[Layer], language: str) -> str:
    """The picture. What the host brings is only outlined: the bundle does not carry it."""
    height = len(layers) * (_HEIGHT + _GAP) - _GAP
    label = escape(plain(language, "layers"))
    drawn = "".join(
        _slab(layer, number * (_HEIGHT + _GAP), language)
        for number, layer in enumerate(reversed(layers))
    )
    return (
        f'<svg class="layers" viewBox="0 0 {_WIDTH} {height}" '
        f'role="img" aria-label="{label}">'
        f"{drawn}</svg>"
    )


def _slab(layer: Layer, top: int, language: str) -> str:
    kind = "outside" if layer.kind in (HOST, DRIVER) else "inside"
    texts = "".join(_texts(layer, top, language))
    return (
        f'<g class="{kind}"><rect x="1" y="{top + 1}" width="{_WIDTH - 2}" '
        f'height="{_HEIGHT - 2}" rx="4" {_LOOKS[kind]}/>{texts}</g>'
    )


def _texts(layer: Layer, top: int, language: str) -> Iterator[str]:
    room = int((_WIDTH - 2 * _MARGIN) / (_NAME * _LETTER))
    name = layer.name
    if len(name) + len(layer.version) + 1 > room:
        name = f"{name[: max(5, room - len(layer.version) - 2)]}…"
    about = plain(language, f"layer-{layer.kind}")
    left, right = f'x="{_MARGIN}"', f'x="{_WIDTH - _MARGIN}" text-anchor="end"'
    large, small = f'font-size="{_NAME}" fill="{_INK}"', f'font-size="{_KIND}" fill="{_SOFT}"'
    for kind, place, y, look, text in (
        ("name", left, top + 15, f'{large} font-weight="600"', name),
        ("version", right, top + 15, large, layer.version),
        ("kind", left, top + 29, small, about),
    ):
        yield f'<text class="{kind}" {place} y="{y}" {_FONT} {look}>{escape(text)}</text>'
