"""`bundle parity`: what lets a bundle that exists survive a scratched medium."""

from pathlib import Path

import click

from bundler import parity
from bundler.options import EXIT_CODES, voice
from manifests.console import Console, size
from manifests.parity import advice

_EPILOG = f"""\b
Examples:
  bundle parity NAME --percent 5
  sh install.sh restore --to FOLDER         on the isolated host, from the damaged medium
  bundle restore NAME --to FOLDER           on a connected machine

With P percent, one hole of P percent of the archive is survived wherever it lies (in one file, or
a whole volume), or smaller ones, as long as none of the columns that the archive is divided into
lacks more than P of its 100 + P blocks. A second copy of what install.sh starts from, of
install.sh itself (restore.sh) and of SHA256SUMS lie beside it.

SHA256SUMS changes, so a signature is removed: sign again with `bundle sign`.

{EXIT_CODES}"""


@click.command(name="parity", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME")
@click.option(
    "--percent", required=True, metavar="P", help="Share of the archive that may be lost: 1 to 100."
)
@voice
def command(place: Path, percent: str, console: Console) -> None:
    """Add parity to the bundle in the folder NAME, or make it anew.

    All of its volumes have to lie there.
    """
    rows = parity.parse_percent(percent)
    with (
        advice.given(place),
        console.stage(f"make parity of {rows} %", parity.reads(place)) as progress,
    ):
        made = parity.add(place, rows, progress)
    for note in made.notes:
        console.say(f"note: {note}")
    record = {
        "folder": str(made.folder),
        "files": list(made.files),
        "bytes": made.size,
        "percent": made.percent,
        "survives_bytes_in_one_place": made.survives,
        "notes": list(made.notes),
    }
    text = (
        f"{made.folder}: {size(made.size)} in {len(made.files)} files, "
        f"survives the loss of {size(made.survives)} in one place"
    )
    console.result(record, text)
