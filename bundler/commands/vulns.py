"""`bundle vulns`: known vulnerabilities of what is in a bundle, by a database on the disk."""

import datetime
import json
from pathlib import Path
from typing import Any

import click

from bundler import inspecting, whole
from bundler.locking import epoch
from bundler.options import EXIT_CODES, voice, volumes_in
from bundler.papers import outside, pickles, vulns, vulns_page
from manifests import vulns_ignores, vulns_judge, vulns_report, vulns_text
from manifests.console import Console
from manifests.exitcodes import ExitCode
from manifests.vulns import LEVELS
from manifests.vulns_judge import Question
from manifests.vulns_report import Report
from manifests.vulns_text import LANGUAGES

_FORMATS = ("text", "md", "html", "json")
_EPILOG = f"""\b
Examples:
  bundle vulns-database osv.json --from all.zip --for NAME     once, from OSV's dump of PyPI
  bundle vulns NAME --database osv.json
  bundle vulns bundle.lock --database all.zip --fail-on high --ignore ignored.toml
  bundle vulns NAME --database osv.json --format html --output vulns.html
  bundlectl vulns --database osv.json                          the same, on the isolated host

Exit status 2 where something is at or above --fail-on: no byte is wrong (that would be 1), but a
rule forbids it. Nothing is fetched: the answer is as old as the database, whose date it tells.

An ignored entry: [[ignore]], id = "CVE-…", reason = "…", expires = 2027-03-31

{EXIT_CODES}"""


@click.command(name="vulns", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="PLACE")
@click.option(
    "--database",
    type=Path,
    required=True,
    metavar="FILE",
    help="Of `bundle vulns-database`, or a dump (zip or folder) as its publisher distributes it.",
)
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="text", show_default=True, help="Form."
)
@click.option("--language", type=click.Choice(LANGUAGES), default="en", show_default=True)
@click.option("--output", type=Path, metavar="FILE", help="Write it there instead of printing it.")
@click.option(
    "--fail-on",
    type=click.Choice(vulns_report.THRESHOLDS),
    show_default="nothing",
    help="End with 2 where something has this level or a worse one.",
)
@click.option("--ignore", type=Path, metavar="FILE", help="TOML list of what is taken, and why.")
@click.option(
    "--unknown-as",
    type=click.Choice(LEVELS),
    default="high",
    show_default=True,
    help="What counts where nobody says how bad it is.",
)
@click.option(
    "--today",
    default="",
    metavar="DATE",
    show_default="SOURCE_DATE_EPOCH, or the clock",
    help="The day on which the database's age and the list's entries are judged.",
)
@click.option("--max-age", type=click.IntRange(0), metavar="DAYS", help="Refuse an older database.")
@volumes_in
@voice
def command(
    place: Path,
    database: Path,
    kind: str,
    language: str,
    output: Path | None,
    fail_on: str | None,
    ignore: Path | None,
    unknown_as: str,
    today: str,
    max_age: int | None,
    volumes_in: tuple[Path, ...],
    console: Console,
) -> int:
    """Name the known vulnerabilities of a bundle, a lock or an installation.

    Python packages are compared with the database, by pip-audit's library; files of models that
    can run code when they are loaded are looked into. What was not looked at is named too.
    """
    outside.check(output, place)
    day = vulns_judge.day(today) if today else _now()
    ignores = vulns_ignores.load(ignore) if ignore is not None else ()
    subject = inspecting.find_or_lock(place, volumes_in)
    contents = vulns.of_subject(subject)
    with console.stage(f"read {database.name}"):
        known = vulns.load_database(database, vulns.names(contents))
    question = Question(known, day, fail_on or "", ignores, unknown_as)
    question.check_age(max_age)
    with console.stage("look into the models' files"):
        scan = pickles.scan(subject, volumes_in)
    report = vulns.look(contents, question, scan)
    _tell(report, kind, language, output, console)
    return ExitCode.USAGE if report.over else ExitCode.OK


def _now() -> datetime.date:
    return datetime.datetime.fromtimestamp(epoch(), datetime.UTC).date()


def _tell(report: Report, kind: str, language: str, output: Path | None, console: Console) -> None:
    record = report.as_record()
    if output is None and (kind == "json" or console.json):
        Console(quiet=console.quiet, json=True).result(record, "")
        return
    text = _text(report, record, kind, language)
    if output is None:
        console.result(record, text)
        return
    whole.write(output, f"{text}\n".encode(), "writing the report")
    told = f"written: {output}; {vulns_text.verdict(report, language)}"
    console.result(record, told)


def _text(report: Report, record: dict[str, Any], kind: str, language: str) -> str:
    if kind == "json":
        return json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
    if kind == "text":
        return vulns_text.render(report, language)
    page = vulns_page.html if kind == "html" else vulns_page.markdown
    return page(report, language).rstrip("\n")
