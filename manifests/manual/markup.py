"""The markup of a topic's file: a small part of Markdown.

```
# Title               the first line
A summary.            the first paragraph
## Heading
Paragraphs, with `code` and [[topic]] for another topic; lines are joined.
- item                further lines of it are indented by two
    code              indented by four: lines are kept
{{exit-codes}}        a table of the program, as items; see `topics`
```
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

TITLE, HEADING, PARAGRAPH, ITEM, CODE = "title", "heading", "paragraph", "item", "code"
#: `code`, or the name of another topic; one of the groups is empty.
INLINE = re.compile(r"`([^`]+)`|\[\[([a-z0-9-]+)\]\]")

_MARKS = {"# ": TITLE, "## ": HEADING, "- ": ITEM}
_CODE_INDENT = "    "


@dataclass(frozen=True)
class Block:
    """A title, heading, paragraph, item of a list, or lines of code."""

    kind: str
    text: str


@dataclass(frozen=True)
class Topic:
    """One topic in one language."""

    name: str
    title: str
    summary: str
    blocks: tuple[Block, ...]  # what follows the summary


def parse(name: str, text: str) -> Topic:
    """Read a topic's file. Raises ValueError where it does not begin with title and summary."""
    title, summary, *blocks = _blocks(text)
    if (title.kind, summary.kind) != (TITLE, PARAGRAPH):
        raise ValueError(f"{name}: a topic begins with its title and a summary")
    return Topic(name, title.text, summary.text, tuple(blocks))


def _blocks(text: str) -> Iterator[Block]:
    for blank, group in groupby(text.splitlines(), lambda line: not line.strip()):
        if not blank:
            yield from _paragraph(list(group))


def _paragraph(lines: list[str]) -> Iterator[Block]:
    kind, taken = "", ""
    for line in lines:
        found, words = _kind(line)
        if found == kind == CODE:
            taken += f"\n{words}"
        elif found:
            if kind:
                yield Block(kind, taken)
            kind, taken = found, words
        elif kind in (PARAGRAPH, ITEM):
            taken = join(taken, words)
        else:
            if kind:
                yield Block(kind, taken)
            kind, taken = PARAGRAPH, words
    yield Block(kind, taken)


def _kind(line: str) -> tuple[str, str]:
    """What a line begins, if it does not go on, and its words."""
    if line.startswith(_CODE_INDENT):
        return CODE, line.removeprefix(_CODE_INDENT)
    for mark, kind in _MARKS.items():
        if line.startswith(mark):
            return kind, line.removeprefix(mark).strip()
    return "", line.strip()


def join(before: str, after: str) -> str:
    """Two lines of one paragraph; no space comes between two Chinese characters."""
    return before + ("" if is_wide(before[-1]) and is_wide(after[0]) else " ") + after


def is_wide(char: str) -> bool:
    """Whether a line may be broken beside a character, as in Chinese (UAX #11: W and F)."""
    return unicodedata.east_asian_width(char) in "WF"
