"""`bundle join`: a bundle that lies in volumes, as one archive."""

from pathlib import Path

import click

from bundler.commands.split import copy, tell
from bundler.options import EXIT_CODES, voice
from manifests.console import Console

_EPILOG = f"""\b
Examples:
  bundle join /media/disc1/NAME /media/disc2 --output /srv/bundles
  bundle join NAME.tar.000 ../second/NAME.tar.001 --output /srv/bundles

The volumes are those that SHA256SUMS names; what else lies beside them is not read. Joining is
not needed to install: install.sh reads volumes as they are.

{EXIT_CODES}"""


@click.command(name="join", epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, type=Path, metavar="NAME|VOLUME...")
@click.option(
    "--output",
    type=Path,
    required=True,
    metavar="DIR",
    help="Folder to write the bundle's folder to.",
)
@click.option("--force", is_flag=True, help="Replace a bundle that is there.")
@voice
def command(places: tuple[Path, ...], output: Path, force: bool, console: Console) -> None:
    """Copy a bundle's volumes into one archive, each byte checked on the way.

    Name the folders in which they lie, or the volumes; SHA256SUMS and install.sh lie in one of
    them.
    """
    tell(console, copy(places, output, 0, force, console))
