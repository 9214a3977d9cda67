"""The licence report as HTML pages."""

from collections.abc import Iterable, Iterator, Sequence

from bundler.papers import page
from bundler.papers.licences import Report
from bundler.papers.licences_told import Row, anchor, called, carriers, groups, headed, rows, say
from bundler.papers.policy import DENY, Finding, notable, reason
from bundler.plan import markup

_COLUMNS = ("component", "used", "declared", "family", "found", "agreement", "text-numbers")
#: Of the page with texts alone, which has no words to translate but its title.
_TEXTS_TITLE = "Licence texts · 许可证文本"
_STYLE = """
pre { border-left: 3px solid var(--line); padding-left: .75rem; }
td { overflow-wrap: break-word; }
@media (max-width: 48rem) { td, tbody th { min-width: 7rem; } }
"""


def render(
    report: Report, language: str, findings: Sequence[Finding] = (), texts_at: str = ""
) -> str:
    """The report; its texts are on the page, or on the one at `texts_at` beside it."""
    parts = [
        _facts(report, language),
        _policy(findings, language),
        _families(report, language),
        _to_look_at(report, language, texts_at),
        markup.section(
            say(language, "all"), _table(rows(report, language), language, report, texts_at)
        ),
        _elsewhere(language, texts_at) if texts_at else _texts(report, language),
    ]
    return page.render(
        say(language, "title", name=report.bill.name),
        language,
        "\n".join(filter(None, parts)),
        lead=say(language, "lead"),
        style=_STYLE,
    )


def texts(report: Report) -> str:
    """The texts alone, for the reports in all languages."""
    body = _texts(report, "en", _TEXTS_TITLE)
    return page.render(_TEXTS_TITLE, "en", body, lead=report.bill.name, style=_STYLE)


def _facts(report: Report, language: str) -> str:
    look = sum(bool(line.eyes) for line in report.lines)
    carried = sum(len(text.carried) for text in report.texts)
    facts = (
        ("facts-components", len(report.lines), ""),
        ("facts-look", look, say(language, "facts-look-more", count=len(report.lines))),
        ("facts-texts", len(report.texts), say(language, "facts-texts-more", count=carried)),
        ("facts-lock", report.bill.lock_sha256[:16], ""),
    )
    cells = "".join(
        f"<div><dt>{page.escape(say(language, key))}</dt><dd>{page.escape(str(value))}"
        f"<small>{page.escape(more)}</small></dd></div>"
        for key, value, more in facts
    )
    return f'<dl class="facts">{cells}</dl>'


def _policy(findings: Sequence[Finding], language: str) -> str:
    """What a policy says of all that it does not simply allow."""
    if not findings:
        return ""
    told = notable(findings)
    title = say(language, "policy")
    if not told:
        return markup.section(title, markup.paragraph(say(language, "policy-fits")))
    cells = [
        [
            page.escape(called(one.component)),
            markup.chip(_chip(one), say(language, one.verdict)),
            page.escape(reason(one, language)),
        ]
        for one in told
    ]
    heads = [say(language, key) for key in ("component", "verdict", "reason")]
    return markup.section(title, markup.table(heads, [markup.Rows(cells)]))


def _chip(finding: Finding) -> str:
    if finding.pardon:
        return "good"
    return "bad" if finding.verdict == DENY else "look"


def _families(report: Report, language: str) -> str:
    cells = [
        [page.escape(say(language, name)), str(count)] for name, count in report.families.items()
    ]
    heads = [say(language, "family"), say(language, "components")]
    return markup.section(
        say(language, "families"), markup.table(heads, [markup.Rows(cells)], numbers={1})
    )


def _to_look_at(report: Report, language: str, texts_at: str) -> str:
    body = "".join(
        f"<h3>{page.escape(group.title)}</h3>{markup.paragraph(group.why)}"
        f"{_table(group.rows, language, report, texts_at)}"
        for group in groups(report, language)
    )
    return markup.section(
        say(language, "to-look-at"),
        body or markup.paragraph(say(language, "nothing-to-look-at")),
    )


def _table(shown: Iterable[Row], language: str, report: Report, texts_at: str) -> str:
    cells = [list(_cells(row, report, texts_at)) for row in shown]
    return markup.table([say(language, key) for key in _COLUMNS], [markup.Rows(cells)])


def _cells(row: Row, report: Report, texts_at: str) -> Iterator[str]:
    yield page.escape(row.name)
    yield page.escape(row.used)
    yield page.escape(row.declared)
    yield markup.chip("look", row.family) if row.look else page.escape(row.family)
    yield page.escape(row.found)
    yield page.escape(row.agreement)
    yield " ".join(
        f'<a href="{texts_at}#{anchor(report.texts[number - 1])}">{number}</a>'
        for number in row.texts
    )


def _elsewhere(language: str, texts_at: str) -> str:
    link = f'<a href="{texts_at}">{texts_at}</a>'
    told = page.escape(say(language, "texts-elsewhere"))
    return markup.section(say(language, "texts"), f"<p>{told} {link}</p>")


def _texts(report: Report, language: str, title: str = "") -> str:
    body = "".join(
        f'<h3 id="{anchor(text)}">{number}. {page.escape(headed(text))}</h3>'
        f"{markup.bullets(tuple(map(page.visible, carriers(text, report))))}"
        f"<p><code>sha256 {text.sha256}</code></p>{_content(text.content, language)}"
        for number, text in enumerate(report.texts, 1)
    )
    told = body or markup.paragraph(say(language, "no-texts"))
    return markup.section(title or say(language, "texts"), told)


def _content(content: str, language: str) -> str:
    if not content:
        return markup.paragraph(say(language, "unreadable"))
    return f"<pre>{page.escape(content)}</pre>"
