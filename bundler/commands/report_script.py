"""`bundle report-script`: the script that describes an isolated host."""

from importlib import resources

import click

from bundler.options import EPILOG


@click.command(name="report-script", epilog=EPILOG)
def command() -> None:
    """Print the shell script that describes an isolated host: carry it there and run it.

    \b
      bundle report-script >preflight-report.sh       here
      sh preflight-report.sh >report.txt              there
      bundle create --target report.txt …             here
    """  # noqa: D301 - click's mark for lines that are not wrapped
    script = resources.files("bundlectl") / "preflight-report.sh"
    click.echo(script.read_text("utf-8"), nl=False)
