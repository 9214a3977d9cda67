"""An audit's answer as one page: no script, nothing from elsewhere, good on paper."""

import time
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from manifests import __version__
from manifests.audit.report import INSTALLATION, Report
from manifests.names import printable


def render(report: Report, language: str) -> str:
    """The page in one of manifests.audit.forms' LANGUAGES."""
    words = _words()
    spoken = words[language]
    verdict, kind = _verdict(report, spoken)
    title = _text(f"{spoken['title']}: {verdict}")
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="{spoken["lang"]}">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>{words['style']}</style></head>",
            f"<body><main><h1>{_text(spoken['title'])}</h1>",
            f'<p class="verdict {kind}">{_text(verdict)}</p>',
            *_facts(report, spoken),
            *_limits(report, spoken),
            *_findings(report, spoken),
            *_risks(report, spoken),
            "</main></body></html>\n",
        )
    )


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / "page.toml").read_text("utf-8"))


def _text(text: object) -> str:
    return escape(printable(str(text)))


def _verdict(report: Report, spoken: dict[str, Any]) -> tuple[str, str]:
    if not report.clean:
        return spoken["broken"].format(len(report.findings)), "bad"
    return (spoken["intact"], "good") if report.intact else (spoken["sample"], "sample")


def _facts(report: Report, spoken: dict[str, Any]) -> Iterator[str]:
    installed = report.kind == INSTALLATION
    facts: list[tuple[str, object]] = [
        (spoken["what"], spoken["installation" if installed else "media"]),
        (spoken["path"], report.path),
        *((spoken["digest"], digest) for digest in report.manifest_sha256),
        (spoken["files" if installed else "listed"], report.files),
        (spoken["checked"], report.checked),
        (spoken["bytes"], report.size),
        (spoken["tool"], f"vllm-bundle {__version__}"),
    ]
    yield "<dl>"
    for name, value in facts:
        yield f"<dt>{_text(name)}</dt><dd><code>{_text(value)}</code></dd>"
    yield "</dl>"


def _limits(report: Report, spoken: dict[str, Any]) -> Iterator[str]:
    if report.sample is None and report.resumed is None:
        return
    yield f"<h2>{_text(spoken['left_out'])}</h2>"
    if report.sample is not None:
        one = report.sample
        told = spoken["drawn"].format(one.files, one.of_files, one.size, one.of_size, one.seed)
        yield f"<p>{_text(told)}</p>"
        yield from _table((spoken["proof"], spoken["chance"]), one.proofs())
    if report.unhashed:
        yield f"<p>{_text(spoken['unhashed'])}</p>"
    if report.resumed is not None:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.resumed.since))
        told = spoken["resumed"].format(report.resumed.files, report.resumed.size, since)
        yield f"<p>{_text(told)}</p>"


def _findings(report: Report, spoken: dict[str, Any]) -> Iterator[str]:
    yield f"<h2>{_text(spoken['findings'])}</h2>"
    if report.clean:
        yield f"<p>{_text(spoken['none'])}</p>"
        return
    yield from _table(
        (spoken["problem"], spoken["where"], spoken["expected"], spoken["found"]),
        [
            (spoken["problems"].get(one.problem, one.problem), one.path, one.expected, one.found)
            for one in report.findings
        ],
    )
    if report.mend:
        yield f"<h2>{_text(spoken['mend'])}</h2><p><code>{_text(report.mend)}</code></p>"


def _risks(report: Report, spoken: dict[str, Any]) -> Iterator[str]:
    if report.risks:
        yield f"<h2>{_text(spoken['risks'])}</h2><ul>"
        yield from (f"<li>{_text(risk)}</li>" for risk in report.risks)
        yield "</ul>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "<table><thead><tr>"
    yield from (f'<th scope="col">{_text(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"
