"""How a support file is set: plain, narrow, bounded; a table of contents before, sections after.

Pure functions of texts. What goes in must have been redacted before: lines are broken here, and a
broken secret is not found any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Columns; a page of A4 in landscape, in a small fixed font.
WIDTH = 132
#: Bytes of the whole file, and characters of one line before it is broken.
LIMIT = 512 << 10
_LONGEST = 4000
_INDENT = "    | "
_RULE = "=" * 72
#: Bytes around a section, but for its title: its line among the contents, and its head.
_FRAME = 3 * len(_RULE)


@dataclass(frozen=True)
class Section:
    """A part of the file. Of one that is too long the start is kept, or its end (logs)."""

    title: str
    lines: tuple[str, ...]
    keep_end: bool = False
    failed: bool = False


def printable(text: str) -> str:
    """One line without what a printer or a terminal would take for a command."""
    spaced = text.replace("\t", "    ")
    return "".join(letter if letter.isprintable() else "?" for letter in spaced)


def broken(line: str, width: int = WIDTH) -> list[str]:
    """A line as lines that are narrow enough."""
    line = printable(line).rstrip()
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]} [{len(line) - _LONGEST} characters left away]"
    rest, room = line[width:], width - len(_INDENT)
    return [line[:width], *(_INDENT + rest[i : i + room] for i in range(0, len(rest), room))]


def compose(
    opening: Sequence[str],
    sections: Sequence[Section],
    removed: Mapping[str, int],
    limit: int = LIMIT,
) -> str:
    """The whole file, `limit` bytes at most unless the opening alone is longer."""
    counts = [f"{count:>7}  {kind}" for kind, count in sorted(removed.items())]
    front = [*opening, "", "REMOVED", *(counts or ["      0  (nothing had to be removed)"]), ""]
    around = sum(map(_size, front)) + sum(2 * _size(s.title) + _FRAME for s in sections) + _FRAME
    share = max(0, limit - around) // max(1, len(sections))
    bodies, spare = [], 0
    for section in sections:  # what a short section leaves is for those after it: logs come last
        lines = [part for line in section.lines for part in broken(line)] or ["(nothing)"]
        body = _bounded(lines, share + spare, section.keep_end)
        spare += share - sum(map(_size, body))
        bodies.append(body)
    front += ["CONTENTS"]
    line = len(front) + len(sections) + 3
    for number, (section, body) in enumerate(zip(sections, bodies, strict=True), 1):
        failed = "  (could not be read)" if section.failed else ""
        front.append(f"{number:>7}  line {line:>5}  {section.title}{failed}")
        line += len(body) + 4
    text = [*front, ""]
    for number, (section, body) in enumerate(zip(sections, bodies, strict=True), 1):
        text += [_RULE, f"{number}. {section.title}", _RULE, *body, ""]
    return "\n".join(text)


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _bounded(lines: list[str], room: int, keep_end: bool) -> list[str]:
    if sum(map(_size, lines)) <= room:
        return lines
    kept: list[str] = []
    room -= 64  # for the line that says so
    for line in _ordered(lines, keep_end):
        room -= _size(line)
        if room < 0:
            break
        kept.append(line)
    said = f"[{len(lines) - len(kept)} lines left away for want of room]"
    return [said, *reversed(kept)] if keep_end else [*kept, said]


def _ordered(lines: list[str], keep_end: bool) -> Iterable[str]:
    return reversed(lines) if keep_end else lines
