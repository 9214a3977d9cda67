"""`bundle audit`: every byte of a medium or of an installation."""

from pathlib import Path

import click

from bundler.options import EPILOG, voice
from manifests import audit
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.exitcodes import ExitCode
from manifests.parity import advice


@click.command(name="audit", epilog=EPILOG)
@click.argument("path", type=Path)
@click.option(
    "--volumes-in",
    type=Path,
    multiple=True,
    metavar="DIR",
    help="Another folder with volumes of the bundle; may be repeated.",
)
@voice
def command(path: Path, volumes_in: tuple[Path, ...], console: Console) -> int:
    """Check every byte of a bundle's folder or of an installation. Exit 0: intact, 1: not."""
    try:
        with console.stage(f"audit {path}", audit.total(path, volumes_in)) as progress:
            report = audit.audit(path, progress, volumes_in)
    except OSError as error:
        raise from_oserror(error, "auditing") from None
    console.result(report.as_record(), report.text())
    if not report.intact and advice.restorable(path):
        console.say(f"mend: bundle restore {path} --to FOLDER")
    return ExitCode.OK if report.intact else ExitCode.INTEGRITY
