"""The licence report in its forms, and the files of it that a bundle carries."""

from collections.abc import Sequence
from typing import Any

from bundler.papers import licences, licences_html, licences_markdown
from bundler.papers.bill import Bill
from bundler.papers.licences import EYES, Report
from bundler.papers.licences_told import groups, say
from bundler.papers.page import LANGUAGES
from bundler.papers.policy import Finding, notable, reason, sentence

#: Where a bundle has them. The texts are there once, for all languages and forms.
_FOLDER = "papers"
_TEXTS = "licence-texts.html"
#: Components that the text for a terminal names in one line.
_NAMED = 12


def documents(bill: Bill) -> dict[str, bytes]:
    """The files of the report that a bundle carries, by path."""
    report = licences.read(bill)
    found = {f"{_FOLDER}/{_TEXTS}": licences_html.texts(report).encode()}
    for language in LANGUAGES:
        start = f"{_FOLDER}/licences.{language}"
        found[f"{start}.html"] = licences_html.render(report, language, (), _TEXTS).encode()
        found[f"{start}.md"] = licences_markdown.render(report, language, (), _TEXTS).encode()
    return found


def text(report: Report, language: str, findings: Sequence[Finding] = ()) -> str:
    """The report in short, for a terminal."""
    kinds = ", ".join(f"{count} {say(language, name)}" for name, count in report.families.items())
    lines = [
        say(language, "title", name=report.bill.name),
        f"  {len(report.lines)} {say(language, 'components')}: {kinds}",
        f"  {len(report.texts)} {say(language, 'facts-texts')}",
        "",
        say(language, "to-look-at"),
    ]
    for group in groups(report, language):
        names = list(dict.fromkeys(row.name for row in group.rows))
        more = ["…"] if len(names) > _NAMED else []
        lines.append(f"  {group.title} ({len(group.rows)}): {', '.join(names[:_NAMED] + more)}")
    if not any(line.eyes for line in report.lines):
        lines.append(f"  {say(language, 'nothing-to-look-at')}")
    if findings:
        lines += ["", say(language, "policy"), *_policy(findings, language)]
    return "\n".join(lines)


def _policy(findings: Sequence[Finding], language: str) -> list[str]:
    return [f"  {sentence(one)}" for one in notable(findings)] or [
        f"  {say(language, 'policy-fits')}"
    ]


def record(report: Report, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """The report for a machine; of texts their digests."""
    verdicts = {
        one.component.ref: {
            "verdict": one.verdict,
            "why": reason(one, "en"),
            "exception": one.pardon.reason if one.pardon else "",
        }
        for one in findings
    }
    return {
        "bundle": report.bill.name,
        "lock_sha256": report.bill.lock_sha256,
        "created": report.bill.created,
        "families": dict(report.families),
        "look": {eye: [one.component.ref for one in report.looked_at(eye)] for eye in EYES},
        "components": [
            {
                "ref": line.component.ref,
                "name": line.component.name,
                "version": line.component.version,
                "purl": line.component.purl,
                "declared": line.component.declared,
                "family": line.family,
                "found": list(line.found),
                "agreement": line.agreement,
                "beyond": list(line.beyond),
                "look": list(line.eyes),
                **({"policy": verdicts[line.component.ref]} if verdicts else {}),
            }
            for line in report.lines
        ],
        "texts": [
            {
                "sha256": one.sha256,
                "licences": list(one.licences),
                "carried": [{"ref": ref, "path": path} for ref, path in one.carried],
            }
            for one in report.texts
        ],
    }
