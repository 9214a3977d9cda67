"""What only the connected side draws on an approval: the treemap of sizes and the QR code."""

from bundler.papers import qr
from bundler.papers.approvalshares import GROUPS, PACKAGES
from bundler.plan import picture
from bundler.plan.picture import Tile
from bundler.plan.treemap import Box, squarify
from manifests.approval import MODEL, Approval, Record, Share
from manifests.approvalmedia import Pictures
from manifests.approvalwords import markup, plain
from manifests.console import size

#: Of the picture, in its own units; on paper it is 120 mm wide.
_WIDTH, _HEIGHT = 600, 208
#: Of the groups, dark enough for white letters.
_COLOURS = ("#35588f", "#4a7213", "#a8480c", "#6d3fc0")
#: What the groups are called, by key of approval.toml.
_LABELS = dict(zip(GROUPS, ("models", "packages", "python", "runtime"), strict=True))


def draw(record: Record, language: str) -> Pictures:
    """The pictures of an approval; none for an installation."""
    if not isinstance(record, Approval):
        return Pictures()
    return Pictures(code(record.medium.list_sha256), _treemap(record.shares, language))


def code(list_sha256: str) -> str:
    """The QR code of the digest that an operator compares."""
    return qr.svg(f"sha256:{list_sha256}")


def _treemap(shares: tuple[Share, ...], language: str) -> str:
    """Every area is proportional to bytes, groups lie together."""
    found = []
    groups = {group: [one for one in shares if one.group == group] for group in GROUPS}
    filled = {group: ones for group, ones in groups.items() if sum(one.size for one in ones)}
    order = sorted(filled, key=lambda group: -sum(one.size for one in filled[group]))
    totals = [sum(one.size for one in filled[group]) for group in order]
    for group, box in zip(order, squarify(totals, Box(0, 0, _WIDTH, _HEIGHT)), strict=True):
        ones = sorted(filled[group], key=lambda one: (-one.size, one.name))
        for one, place in zip(ones, squarify([one.size for one in ones], box), strict=True):
            name = one.name or _unnamed(one, language)
            detail = f"{name}: {size(one.size)}"
            found.append(
                Tile(name.rpartition("/")[2], one.size, detail, place, GROUPS.index(group))
            )
    pairs = zip(order, totals, strict=True)
    legend = " ".join(_key(group, total, language) for group, total in pairs)
    drawn = picture.svg(found, _WIDTH, _HEIGHT, plain(language, "picture"), "sizes")
    # Attributes, not a style sheet: see manifests.approvallayers.
    for number, colour in enumerate(_COLOURS):
        drawn = drawn.replace(f'class="tile g{number}"', f'class="tile" fill="{colour}"')
    drawn = drawn.replace("<rect ", '<rect stroke="#fff" stroke-width="1.5" ')
    drawn = drawn.replace("<text ", '<text font-family="sans-serif" fill="#fff" ')
    return f'{drawn}<p class="legend">{legend}</p>'


def _unnamed(one: Share, language: str) -> str:
    if one.group in (MODEL, PACKAGES):
        return f"{one.count} {plain(language, 'several')}"
    return plain(language, _LABELS[one.group])


def _key(group: str, total: int, language: str) -> str:
    """A colour, what it stands for, and how much that is."""
    square = f'<rect width="1" height="1" fill="{_COLOURS[GROUPS.index(group)]}"/>'
    return (
        f'<span><svg viewBox="0 0 1 1" aria-hidden="true">{square}</svg>'
        f"{markup(language, _LABELS[group])} {size(total)}</span>"
    )
