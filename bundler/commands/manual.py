"""`bundle manual`: the isolated host's manual, for the desk or to be printed."""

from pathlib import Path

import click

from bundler import whole
from bundler.options import EXIT_CODES, voice
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.manual.documents import documents


@click.command(name="manual", epilog=EXIT_CODES)
@click.option("--to", "folder", type=Path, required=True, metavar="DIR", help="Where it is put.")
@voice
def command(folder: Path, console: Console) -> None:
    """Write the isolated host's manual: one HTML page, and plain text in English and Chinese.

    Every bundle carries the same files, in docs/ of its archive.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise from_oserror(error, "writing the manual") from None
    written = {folder / Path(path).name: data for path, data in documents().items()}
    for path, data in written.items():
        whole.write(path, data, "writing the manual")
    console.result({"files": [str(path) for path in written]}, "\n".join(map(str, written)))
