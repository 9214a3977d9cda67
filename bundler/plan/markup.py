"""Pieces of a page. Cells of tables are HTML already; every other text is escaped here."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Rows:
    """Rows that belong together, and their sum."""

    rows: Sequence[Sequence[str]]
    sum: Sequence[str] = ()


def section(title: str, body: str, kind: str = "") -> str:
    """A part of the page under a heading."""
    start = f'<section class="{kind}">' if kind else "<section>"
    return f"{start}<h2>{escape(title)}</h2>{body}</section>"


def paragraph(text: str) -> str:
    """A paragraph; nothing for an empty text."""
    return f"<p>{escape(text)}</p>" if text else ""


def chip(kind: str, text: str) -> str:
    """A coloured word: `good`, `bad`, or `look` for what a person should see."""
    return f'<span class="chip {kind}">{escape(text)}</span>'


def soft(text: str) -> str:
    """Text that stays in the background."""
    return f'<span class="soft">{escape(text)}</span>'


def bullets(lines: Sequence[str]) -> str:
    """A list; nothing for no lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="plain">{items}</ul>' if items else ""


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what is said of them."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f'<div class="wide-table"><table><tbody>{body}</tbody></table></div>'


def table(
    heads: Sequence[str],
    bodies: Iterable[Rows],
    *,
    numbers: Collection[int] = (),
    caption: str = "",
) -> str:
    """A table whose first column names the row; `numbers` are the columns of amounts."""

    def row(cells: Sequence[str], kind: str = "") -> str:
        first, *rest = cells
        others = "".join(
            f"<td{_number(number in numbers)}>{cell}</td>" for number, cell in enumerate(rest, 1)
        )
        return f'<tr{kind}><th scope="row">{first}</th>{others}</tr>'

    head = "".join(
        f'<th scope="col"{_number(number in numbers)}>{escape(name)}</th>'
        for number, name in enumerate(heads)
    )
    body = "".join(
        f"<tbody>{''.join(map(row, part.rows))}"
        + (row(part.sum, ' class="sum"') if part.sum else "")
        + "</tbody>"
        for part in bodies
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide-table"><table>{title}<thead><tr>{head}</tr></thead>{body}</table></div>'
    )


def _number(yes: bool) -> str:
    return ' class="number"' if yes else ""
