"""A report on known vulnerabilities as lines of text, in English or Chinese."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from textwrap import wrap
from typing import Any

from manifests.names import printable
from manifests.vulns_judge import BASE, REMOTE, UNREAD
from manifests.vulns_packages import Unseen
from manifests.vulns_report import PACKAGE, Finding, Report, is_old

LANGUAGES = ("en", "zh")
_WIDTH = 100
#: How many are named where they have the same to say.
_NAMED = 12
#: What is never looked at.
_NEVER = ("vendored", "code", "caches", "host")


@cache
def _words() -> dict[str, list[str]]:
    text = (resources.files("manifests") / "vulns.toml").read_text("utf-8")
    return tomllib.loads(text)


def say(language: str, key: str, **values: Any) -> str:
    """A text by its key."""
    return _words()[key][LANGUAGES.index(language)].format(**values)


def render(report: Report, language: str = "en") -> str:
    """The report as a person reads it on a terminal."""
    lines = [say(language, "title", name=printable(report.name)), *facts(report, language)]
    for one in report.findings:
        lines += _finding(one, language)
    for title, rows in sections(report, language):
        lines += ["", f"{title}:", *(f"  - {row}" for row in rows)]
    return "\n".join(lines)


def facts(report: Report, language: str) -> list[str]:
    """Which database, how many packages, and the verdict: a sentence each."""
    source = report.database
    told = [
        say(
            language,
            "lead",
            date=source.date,
            age=source.age,
            judged=report.judged,
            source=printable(source.source),
            records=source.records,
        ),
        say(language, "compared", compared=report.compared),
    ]
    if is_old(source):
        told.append(say(language, "old"))
    if source.age < 0:
        told.append(say(language, "newer"))
    if not report.findings:
        told.append(say(language, "none"))
    else:
        counted = report.counts().items()
        told.append(", ".join(f"{say(language, level)}: {count}" for level, count in counted))
    return [*told, verdict(report, language)]


def verdict(report: Report, language: str) -> str:
    """What the threshold says."""
    if not report.threshold:
        return say(language, "no_threshold")
    threshold = say(language, report.threshold)
    key = "stops" if report.over else "passes"
    return say(language, key, count=len(report.over), threshold=threshold)


def mend(one: Finding, language: str) -> str:
    """Where a finding is mended."""
    if one.kind != PACKAGE:
        return ""
    return ", ".join(one.fixed) or say(language, "nowhere")


def about(one: Finding, language: str) -> str:
    """What a finding is, in a line."""
    if one.why:
        return say(language, f"pickle_{one.why}", what=printable(one.summary))
    parts = [printable(one.summary)]
    if not one.stated:
        parts.append(say(language, "unstated", level=say(language, one.level)))
    return "; ".join(filter(None, parts))


def sections(report: Report, language: str) -> Iterator[tuple[str, list[str]]]:
    """What else there is to tell: a title, and its lines."""
    if report.ignored:
        rows = [
            printable(
                f"{one.finding.id} ({one.finding.name} {one.finding.version}): "
                f"{one.ignore.reason} ({say(language, 'until')} {one.ignore.expires})"
            )
            for one in report.ignored
        ]
        yield say(language, "ignored"), rows
    for key, ignores in (("expired", report.expired), ("idle", report.idle)):
        if ignores:
            rows = [f"{printable(one.id)}: {one.expires}" for one in ignores]
            yield say(language, key), rows
    yield say(language, "models"), [_models(report, language)]
    yield say(language, "unseen"), list(_unseen(report, language))
    yield (
        say(language, "digests"),
        [
            f"{report.database.source_sha256}  {say(language, 'database_sha256')}",
            f"{report.lock_sha256}  {say(language, 'lock_sha256')}",
        ],
    )


def _finding(one: Finding, language: str) -> list[str]:
    score = f" {one.score}" if one.score else ""
    head = f"{say(language, one.level)}{score}  {one.name} {one.version}  {one.id}"
    lines = [printable(f"{head} ({', '.join(one.aliases)})" if one.aliases else head)]
    if fixed := mend(one, language):
        lines.append(printable(f"    {say(language, 'fixed')}: {fixed}"))
    lines += wrap(about(one, language), _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return ["", *lines]


def _models(report: Report, language: str) -> str:
    if report.unscanned:
        return say(language, f"unscanned_{report.unscanned}")
    if not report.pickles:
        ofmodels = {BASE, REMOTE, UNREAD} & {one.kind for one in report.unseen}
        return say(language, "scanned_nothing" if ofmodels else "scanned_none")
    return say(language, "scanned", files=", ".join(map(printable, report.pickles)))


def _unseen(report: Report, language: str) -> Iterator[str]:
    kinds: dict[str, list[Unseen]] = {}
    for one in report.unseen:
        kinds.setdefault(one.kind, []).append(one)
    for kind, ones in kinds.items():
        yield f"{say(language, f'unseen_{kind}')}: {_some(ones)}"
    for kind in _NEVER:
        yield say(language, f"unseen_{kind}")


def _some(ones: Sequence[Unseen]) -> str:
    named = [printable(f"{one.name} {one.version}".strip()) for one in ones[:_NAMED]]
    rest = len(ones) - len(named)
    return ", ".join(named) + (f" (+{rest})" if rest else "")
