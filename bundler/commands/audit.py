"""`bundle audit`: every byte of a medium or of an installation."""

from pathlib import Path

import click

from bundler.options import EPILOG, voice
from manifests import audit
from manifests.audit.report import size_of
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.exitcodes import ExitCode


@click.command(name="audit", epilog=EPILOG)
@click.argument("path", type=Path)
@voice
def command(path: Path, console: Console) -> int:
    """Check every byte of a bundle's folder or of an installation. Exit 0: intact, 1: not."""
    try:
        with console.stage(f"audit {path}", size_of(path)) as progress:
            report = audit.audit(path, progress)
    except OSError as error:
        raise from_oserror(error, "auditing") from None
    console.result(report.as_record(), report.text())
    return ExitCode.OK if report.intact else ExitCode.INTEGRITY
