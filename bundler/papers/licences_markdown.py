"""The licence report as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from bundler.papers.licences import Report
from bundler.papers.licences_told import Row, anchor, called, carriers, groups, headed, rows, say
from bundler.papers.page_markdown import escape, table, verbatim
from bundler.papers.policy import Finding, notable, reason

_COLUMNS = ("component", "used", "declared", "family", "found", "agreement", "text-numbers")


def render(
    report: Report, language: str, findings: Sequence[Finding] = (), texts_at: str = ""
) -> str:
    """The report; its texts are in it, or in the HTML page at `texts_at` beside it."""
    return "\n\n".join(_parts(report, language, findings, texts_at)) + "\n"


def _parts(
    report: Report, language: str, findings: Sequence[Finding], texts_at: str
) -> Iterator[str]:
    yield f"# {escape(say(language, 'title', name=report.bill.name))}"
    yield escape(say(language, "lead"))
    if findings:
        yield from _policy(findings, language)
    yield f"## {say(language, 'families')}"
    counts = [[say(language, name), str(count)] for name, count in report.families.items()]
    yield table([say(language, "family"), say(language, "components")], counts)
    yield f"## {say(language, 'to-look-at')}"
    told = list(groups(report, language))
    for group in told:
        yield f"### {escape(group.title)}"
        yield escape(group.why)
        yield _table(group.rows, language, report, texts_at)
    if not told:
        yield say(language, "nothing-to-look-at")
    yield f"## {say(language, 'all')}"
    yield _table(rows(report, language), language, report, texts_at)
    yield f"## {say(language, 'texts')}"
    if texts_at:
        yield f"{say(language, 'texts-elsewhere')} [{texts_at}]({texts_at})"
    else:
        yield from _texts(report, language)


def _policy(findings: Sequence[Finding], language: str) -> Iterator[str]:
    yield f"## {say(language, 'policy')}"
    told = notable(findings)
    if not told:
        yield say(language, "policy-fits")
        return
    heads = [say(language, key) for key in ("component", "verdict", "reason")]
    cells = (
        (
            escape(called(one.component)),
            say(language, one.verdict),
            escape(reason(one, language)),
        )
        for one in told
    )
    yield table(heads, cells)


def _table(shown: Iterable[Row], language: str, report: Report, texts_at: str) -> str:
    heads = [say(language, key) for key in _COLUMNS]
    return table(heads, [_cells(row, report, texts_at) for row in shown])


def _cells(row: Row, report: Report, texts_at: str) -> list[str]:
    plain = (row.name, row.used, row.declared, row.family, row.found, row.agreement)
    links = (f"[{n}]({texts_at}#{anchor(report.texts[n - 1])})" for n in row.texts)
    return [*map(escape, plain), " ".join(links)]


def _texts(report: Report, language: str) -> Iterator[str]:
    if not report.texts:
        yield say(language, "no-texts")
    for number, text in enumerate(report.texts, 1):
        yield f'### <a id="{anchor(text)}"></a>{number}\\. {escape(headed(text))}'
        yield "\n".join(f"- {escape(one)}" for one in carriers(text, report))
        yield f"sha256 `{text.sha256}`"
        yield verbatim(text.content) if text.content else say(language, "unreadable")
