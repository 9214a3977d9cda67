"""A report on known vulnerabilities as Markdown and as an HTML page, in English or Chinese."""

import re
from collections.abc import Iterable

from bundler.papers import page
from manifests.vulns_report import Finding, Report
from manifests.vulns_text import about, facts, mend, say, sections

_HEADS = ("level", "package", "identifier", "fixed", "about")
#: Markup in Markdown, in a table too: https://spec.commonmark.org/0.31.2/#backslash-escapes.
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|~&])")


def markdown(report: Report, language: str) -> str:
    """The report as Markdown (CommonMark, and GitHub's tables)."""
    told = [f"# {_plain(say(language, 'title', name=report.name))}", ""]
    told += [f"{_plain(fact)}\n" for fact in facts(report, language)]
    if report.findings:
        told += [f"## {say(language, 'findings')}", ""]
        told.append(_row([say(language, head) for head in _HEADS]))
        told.append(_row(["---"] * len(_HEADS)))
        told += [_row(map(_plain, _cells(one, language))) for one in report.findings]
        told.append("")
    for title, rows in sections(report, language):
        told += [f"## {_plain(title)}", "", *(f"- {_plain(row)}" for row in rows), ""]
    return "\n".join(told)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def html(report: Report, language: str) -> str:
    """The report as one HTML page."""
    lead, *others = facts(report, language)
    body = [f"<section>{''.join(f'<p>{page.escape(fact)}</p>' for fact in others)}</section>"]
    if report.findings:
        heads = "".join(f'<th scope="col">{page.escape(say(language, one))}</th>' for one in _HEADS)
        rows = "".join(_table_row(one, language) for one in report.findings)
        body.append(
            f"<section><h2>{page.escape(say(language, 'findings'))}</h2>"
            f'<div class="wide-table"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div></section>"
        )
    for title, lines in sections(report, language):
        items = "".join(f"<li>{page.escape(line)}</li>" for line in lines)
        body.append(
            f'<section><h2>{page.escape(title)}</h2><ul class="plain">{items}</ul></section>'
        )
    title = say(language, "title", name=report.name)
    return page.render(title, language, "\n".join(body), lead=lead)


def _table_row(one: Finding, language: str) -> str:
    level, *others = _cells(one, language)
    kind = "bad" if one.level in ("critical", "high") else "look"
    cells = "".join(f"<td>{page.escape(text)}</td>" for text in others)
    chip = f'<span class="chip {kind}">{page.escape(level)}</span>'
    return f'<tr><th scope="row">{chip}</th>{cells}</tr>'


def _cells(one: Finding, language: str) -> list[str]:
    return [
        " ".join(filter(None, (say(language, one.level), one.score))),
        f"{one.name} {one.version}",
        ", ".join(one.ids),
        mend(one, language),
        about(one, language),
    ]
