"""Pieces of Markdown: CommonMark with GitHub's tables.

https://spec.commonmark.org/0.31.2/, https://github.github.com/gfm/#tables-extension-.
"""

import re
from collections.abc import Iterable, Sequence

from bundler.papers.page import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|~&])")
_FENCES = re.compile(r"`{3,}")


def escape(text: str) -> str:
    """A text that somebody else wrote, on one line and without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(visible(text).split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = (heads, ["---"] * len(heads), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def verbatim(text: str) -> str:
    """A text as it is, within a fence that it does not hold."""
    longest = max((len(one) for one in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{visible(text).rstrip()}\n{fence}"
