"""`bundle audit`: every byte of a medium or of an installation."""

from pathlib import Path

import click

from bundler.options import EXIT_CODES, voice, volumes_in
from manifests import approvalinstalled, audit
from manifests.audit import sumlist
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.exitcodes import ExitCode
from manifests.parity import advice

_EPILOG = f"""\b
Examples:
  bundle audit /media/usb/NAME
  bundle audit /opt/vllm-bundle --format sarif --output audit.sarif
  bundle audit /opt/vllm-bundle --sample 5% --max-rate 50M
  bundle audit /opt/vllm-bundle --resume audit.state   again, where it was interrupted
  cd /opt/vllm-bundle && bundle audit . --sums | sha256sum --quiet -c

Status 0 of a --sample says that nothing differs in the sample, and how much that proves.

{EXIT_CODES}"""


@click.command(name="audit", epilog=_EPILOG)
@click.argument("path", type=Path)
@volumes_in
@click.option("--format", "form", type=click.Choice(audit.FORMATS), default="text")
@click.option(
    "--output", type=Path, metavar="FILE", help="Write the answer there, in its --format."
)
@click.option(
    "--lang", type=click.Choice(audit.LANGUAGES), default="en", help="Language of the HTML page."
)
@click.option(
    "--sample", default="", metavar="N|P%", help="Read the bytes of so many files, or of a share."
)
@click.option("--seed", default="", help="Draw the sample that was drawn with this seed.")
@click.option("--max-rate", default="", metavar="SIZE", help="Bytes a second at the most: 100M.")
@click.option("--jobs", type=click.IntRange(min=1), help="Threads that read an installation.")
@click.option(
    "--resume",
    type=Path,
    metavar="FILE",
    help="Keep there what was found right, and go on with it after an interruption.",
)
@click.option(
    "--sums", is_flag=True, help="Print an installation's list for sha256sum -c; audit nothing."
)
@click.option(
    "--report",
    "paper",
    type=Path,
    metavar="FILE",
    help="Write what is installed for people to sign: a page (.html) or data (.json).",
)
@voice
def command(
    path: Path,
    volumes_in: tuple[Path, ...],
    form: str,
    output: Path | None,
    lang: str,
    sample: str,
    seed: str,
    max_rate: str,
    jobs: int | None,
    resume: Path | None,
    sums: bool,
    paper: Path | None,
    console: Console,
) -> int:
    """Check every byte of a bundle's folder or of an installation. Exit 0: intact, 1: not."""
    if sums:
        sumlist.check_alone(
            {
                "--volumes-in": volumes_in,
                "--format": form != "text",
                "--output": output,
                "--sample": sample,
                "--seed": seed,
                "--max-rate": max_rate,
                "--jobs": jobs,
                "--resume": resume,
                "--report": paper,
            }
        )
        listed = sumlist.render(path)
        console.result({"sums": listed.splitlines()}, listed.rstrip("\n"))
        return ExitCode.OK
    answer = audit.Answer(form, output, lang)
    answer.check(console)
    for file, option in ((output, "--output"), (resume, "--resume")):
        audit.check_outside(file, option, (path, *volumes_in))
    audit.check_apart({"--output": output, "--resume": resume, "--report": paper})
    how = audit.how(sample, seed, max_rate, jobs or 0, resume)
    if paper is not None:
        approvalinstalled.check(paper, path)
    try:
        prepared = audit.prepare(path, volumes_in, how)
        with console.stage(f"audit {path}", prepared.size) as progress:
            report = prepared.run(progress)
    except OSError as error:
        raise from_oserror(error, "auditing") from None
    try:
        answer.give(report, console)
    finally:
        if paper is not None:
            approvalinstalled.write(paper, approvalinstalled.installation(path, report))
    if not report.clean and advice.restorable(path):
        console.say(f"mend: bundle restore {path} --to FOLDER")
    return ExitCode.OK if report.clean else ExitCode.INTEGRITY
