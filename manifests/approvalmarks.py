"""Pieces of a record's page. What stands in cells is HTML already; other texts are escaped here."""

from collections.abc import Iterable

from manifests.approvalwords import markup
from manifests.console import size

#: Digits that people compare at a time.
_GROUP = 4
#: Problems, licences and vulnerabilities that are named on the page; the data have more.
_FEW = 12
TIMES = "\N{MULTIPLICATION SIGN}"
Row = tuple[str, str]


def grouped(digest: str) -> str:
    """A digest as people compare it."""
    return " ".join(digest[start : start + _GROUP] for start in range(0, len(digest), _GROUP))


def section(title: str, content: str, kind: str = "") -> str:
    """A part of the page under a heading."""
    return f'<section class="{kind}"><h2>{title}</h2>{content}</section>'


def pairs(rows: Iterable[Row]) -> str:
    """Names and what is said of them."""
    cells = "".join(f'<tr><th scope="row">{name}</th><td>{text}</td></tr>' for name, text in rows)
    return f"<table>{cells}</table>"


def lines(*texts: str) -> str:
    """Lines one below the other, but for empty ones."""
    return "<br>".join(filter(None, texts))


def joined(*texts: str) -> str:
    """Texts with commas between, but for empty ones."""
    return ", ".join(filter(None, texts))


def digest(hexadecimal: str) -> str:
    """A digest as a cell."""
    return f"<code>{grouped(hexadecimal)}</code>"


def amount(length: int | None, count: int, language: str) -> str:
    """Bytes (None: not known) in so many files."""
    known = "—" if length is None else size(length)
    return f"{known}, {markup(language, 'files')}: {count:,}"


def few(texts: list[str], language: str, between: str = "<br>", count: int = 0) -> str:
    """The first texts, and how many more there are of `count`, or of the texts."""
    shown = texts[:_FEW]
    if more := max(count, len(texts)) - len(shown):
        shown.append(f"+ {more:,} {markup(language, 'more')}")
    return between.join(shown)


def signatures(roles: Iterable[str], language: str) -> str:
    """Places for people to sign in these roles."""
    places = "".join(
        f"<div><dt>{markup(language, key)}</dt><dd></dd></div>"
        for key in ("name", "date", "signature")
    )
    boxes = "".join(
        f"<li><h3>{markup(language, role)}</h3><dl>{places}</dl></li>" for role in roles
    )
    return section(markup(language, "signatures"), f"<ul>{boxes}</ul>", "signatures")
