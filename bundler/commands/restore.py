"""`bundle restore`: a whole copy of a bundle from a damaged medium with parity."""

from pathlib import Path

import click

from bundler.options import EXIT_CODES, voice
from manifests.console import Console
from manifests.errors import UsageError
from manifests.names import DIGEST
from manifests.parity.restore import restore_from

_EPILOG = f"""\b
Examples:
  bundle restore /media/disc/NAME --to /srv/NAME
  bundle restore /media/disc1/NAME --volumes-in /media/disc2 --to /srv/NAME

The isolated host does the same without this command: sh install.sh restore --to FOLDER, or, where
install.sh is damaged too, sh restore.sh --to FOLDER.

{EXIT_CODES}"""


@click.command(name="restore", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME")
@click.option("--to", "target", type=Path, required=True, metavar="FOLDER", help="A new folder.")
@click.option(
    "--volumes-in",
    type=Path,
    multiple=True,
    metavar="DIR",
    help="Another folder with files of the bundle, or with a second copy; may be repeated.",
)
@click.option(
    "--trust-digest", default="", metavar="HEX", help="The sha256 that SHA256SUMS has to have."
)
@voice
def command(
    place: Path, target: Path, volumes_in: tuple[Path, ...], trust_digest: str, console: Console
) -> None:
    """Copy the bundle in the folder NAME, and rebuild what of it is damaged or missing.

    What can't be read counts as missing. All of the new folder is proven against SHA256SUMS; where
    too much is lost, nothing is left behind.
    """
    if trust_digest and not DIGEST.fullmatch(trust_digest):
        raise UsageError(
            "--trust-digest: not 64 hex digits in lower case",
            mend="give what sha256sum printed for SHA256SUMS where the bundle was made",
        )
    done = restore_from((place, *volumes_in), target, console, trusted=trust_digest)
    console.result(done.as_record(), done.text())
