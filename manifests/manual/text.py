"""A topic as plain text, for terminals, printers and files: lines of at most WIDTH columns."""

import re
import unicodedata
from collections.abc import Iterator

from manifests.manual.markup import CODE, HEADING, INLINE, ITEM, Block, Topic, is_wide
from manifests.manual.topics import all_topics, words

WIDTH = 78
#: General categories (Unicode, table 4-4) of wide punctuation that may not begin or end a line.
_CLOSING, _OPENING = ("Po", "Pe"), ("Ps",)
#: Columns of `code` that is not spread over two lines, and what stands for a space in it.
_LONGEST_KEPT, _KEPT = 36, "\N{NO-BREAK SPACE}"


def columns(text: str) -> int:
    """How wide a text is on a terminal; signs of ambiguous width (UAX #11: A) count as wide."""
    return sum(2 if unicodedata.east_asian_width(char) in "WFA" else 1 for char in text)


def render(topic: Topic) -> str:
    """The whole topic; no trailing newline."""
    text = f"{topic.title}\n{'=' * columns(topic.title)}\n\n{wrapped(topic.summary)}"
    before = ""
    for block in topic.blocks:
        text += ("\n" if before == block.kind == ITEM else "\n\n") + _block(block)
        before = block.kind
    return text


def _block(block: Block) -> str:
    if block.kind == CODE:
        return "\n".join(f"    {line}".rstrip() for line in block.text.splitlines())
    if block.kind == ITEM:
        return wrapped(block.text, "  - ", "    ")
    if block.kind == HEADING:
        return f"{plain(block.text)}\n{'-' * columns(plain(block.text))}"
    return wrapped(block.text)


def plain(text: str) -> str:
    """A text without its marks: `code` as it is, another topic as the words that show it."""
    return _unmarked(text).replace(_KEPT, " ")


def _unmarked(text: str) -> str:
    return INLINE.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code, topic = match.groups()
    # In quotes where it would run into the sentence; a backtick, copied, is the shell's.
    words = f"help {topic}" if topic else f"'{code}'" if " " in code else code
    return words.replace(" ", _KEPT) if len(words) <= _LONGEST_KEPT else words


def wrapped(text: str, first: str = "", then: str = "", width: int = WIDTH) -> str:
    """A paragraph in lines of at most `width` columns; `first` and `then` begin its lines."""
    lines, line = [], first
    fresh = True  # nothing but the beginning is in the line
    for space, atom in _atoms(_unmarked(text)):
        gap = "" if fresh else space
        if not fresh and columns(line + gap + atom) > width:
            lines.append(line)
            line, gap = then, ""
        line, fresh = line + gap + atom, False
    return "\n".join([*lines, line]).replace(_KEPT, " ")


def _atoms(text: str) -> Iterator[tuple[str, str]]:
    """What no line is broken inside, each with the space before it."""
    for match in re.finditer(r"( *)([^ ]+)", text):
        space, word = (" " if match[1] else ""), ""
        for char in match[2]:
            if word and _breaks(word[-1], char):
                yield space, word
                space, word = "", ""
            word += char
        yield space, word


def _breaks(before: str, char: str) -> bool:
    """Whether a line may end between two characters that no space divides."""
    if is_wide(char) and unicodedata.category(char) in _CLOSING:
        return False
    if is_wide(before) and unicodedata.category(before) in _OPENING:
        return False
    return is_wide(before) or is_wide(char)


def listing(language: str) -> str:
    """All topics by name, a line each, below the manual's title."""
    spoken, found = words(language), all_topics(language)
    longest = max(len(one.name) for one in found)
    lines = [f"  {one.name:<{longest}}  {one.title}" for one in found]
    return "\n".join((spoken["title"], "", wrapped(spoken["about"]), "", *lines))
