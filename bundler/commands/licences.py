"""`bundle licences`: what the components of a bundle declare, and what their texts are."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import click

from bundler import whole
from bundler.commands.billing import ways
from bundler.options import EXIT_CODES, voice
from bundler.papers import (
    gathering,
    licences,
    licences_html,
    licences_markdown,
    licences_report,
    outside,
)
from bundler.papers import policy as policies
from bundler.papers.gathering import Ways
from bundler.papers.licences import Report
from bundler.papers.page import LANGUAGES
from bundler.papers.policy import Finding
from manifests.console import Console
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode

_FORMATS = ("text", "md", "html", "json")
_EPILOG = f"""\b
Examples:
  bundle licences NAME
  bundle licences NAME --format html --language zh --output licences.html
  bundle licences bundle.lock --policy policy.toml
  bundle licences NAME --policy policy.toml --accept-licences --today 2027-01-31

\b
A policy (TOML); families, SPDX identifiers, or components as KIND/NAME; patterns with * and ?:
  allow = ["permissive", "weak copyleft"]
  ask = ["proprietary"]
  deny = ["strong copyleft", "SSPL-*"]
  [exceptions."wheel/nvidia-*"]
  reason = "agreement of 2026-03-01"
  until = 2027-03-01

What is more exact counts (component, licence, family), then what is stricter; what no list names is
to be asked about. Exit status 2 where something is denied, or to be asked about and not accepted.
A hint where to look, not legal advice.

{EXIT_CODES}"""


@click.command(name="licences", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME_OR_LOCK")
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="text", show_default=True, help="Form."
)
@click.option("--language", type=click.Choice(tuple(LANGUAGES)), default="en", show_default=True)
@click.option("--output", type=Path, metavar="FILE", help="Write it there instead of printing it.")
@click.option("--policy", type=Path, metavar="FILE", help="Judge the licences by this policy.")
@click.option(
    "--accept-licences", "accepted", is_flag=True, help="Accept what the policy wants asked about."
)
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    show_default="the bundle's own",
    metavar="DATE",
    help="The day on which the policy's exceptions are judged.",
)
@ways
@voice
def command(
    place: Path,
    kind: str,
    language: str,
    output: Path | None,
    policy: Path | None,
    accepted: bool,
    today: datetime.datetime | None,
    volumes_in: tuple[Path, ...],
    recompute: bool,
    ways: Ways,
    console: Console,
) -> int:
    """Report the licences of a bundle: declared, found in the texts that it carries, and the texts.

    NAME_OR_LOCK is a bundle's folder, an installation's prefix, a release's folder in it, or a
    bundle.lock.
    """
    if policy is None and (accepted or today):
        raise UsageError(
            "--accept-licences and --today say nothing without a policy", mend="add --policy FILE"
        )
    outside.check(output, place)
    rules = policies.load(policy) if policy is not None else None
    report = licences.read(
        gathering.of_place(place, ways, console, volumes_in, recompute=recompute)
    )
    findings: tuple[Finding, ...] = ()
    if rules is not None:
        findings = policies.judge(report, rules, today.date() if today else None)
        for one in policies.unused(findings, rules):
            console.say(f"the policy's exception for {one.pattern} is not needed")
    _tell(report, findings, kind, language, output, console)
    if not (console.json or kind == "json"):
        policies.refuse(findings, accepted=accepted)
    # One JSON document is the whole answer: it has the verdicts.
    return ExitCode.OK if policies.passes(findings, accepted=accepted) else ExitCode.USAGE


def _tell(
    report: Report,
    findings: Sequence[Finding],
    kind: str,
    language: str,
    output: Path | None,
    console: Console,
) -> None:
    record = licences_report.record(report, findings)
    if output is not None:
        content = _content(report, findings, kind, language)
        whole.write(output, content.encode(), "writing the report")
        console.result({**record, "output": str(output)}, f"written: {output}")
    elif console.json or kind == "json":
        Console(console.quiet, json=True).result(record, "")
    else:
        console.result(record, _content(report, findings, kind, language).rstrip("\n"))


def _content(report: Report, findings: Sequence[Finding], kind: str, language: str) -> str:
    if kind == "json":
        found = licences_report.record(report, findings)
        return json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if kind == "html":
        return licences_html.render(report, language, findings)
    if kind == "md":
        return licences_markdown.render(report, language, findings)
    return licences_report.text(report, language, findings) + "\n"
