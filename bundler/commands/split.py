"""`bundle split`: a bundle that exists, in volumes that fit other media."""

from pathlib import Path
from typing import Any

import click

from bundler.carried import look, medium_of
from bundler.options import EXIT_CODES, voice
from bundler.resplit import Written, resplit
from manifests import volumes
from manifests.console import Console, size

_EPILOG = f"""\b
Examples:
  bundle split NAME --volume-size fat32 --output /media/usb
  bundle split /media/disc1/NAME /media/disc2 --volume-size 2GiB --output /srv/out

The archive's bytes stay the same, and with them the digest of the manifest; each is checked while
it is copied. SHA256SUMS names the new files, so a signature of the old list does not hold for it.

{EXIT_CODES}"""


@click.command(name="split", epilog=_EPILOG)
@click.argument("bundle", nargs=-1, required=True, type=Path)
@click.option(
    "--volume-size", required=True, metavar="SIZE", help="fat32, dvd, bd, or a size: 4000M, 4GiB."
)
@click.option(
    "--output",
    type=Path,
    default=Path(),
    metavar="DIR",
    help="Folder to write the bundle's folder to; the working folder otherwise.",
)
@click.option("--force", is_flag=True, help="Replace a bundle that is there.")
@voice
def command(
    bundle: tuple[Path, ...], volume_size: str, output: Path, force: bool, console: Console
) -> None:
    """Copy a bundle in volumes of at most SIZE, each with its own line in SHA256SUMS.

    BUNDLE is its folder; more folders where its volumes lie apart.
    """
    tell(console, copy(bundle, output, volumes.parse_size(volume_size), force, console))


def copy(
    paths: tuple[Path, ...], output: Path, volume_size: int, force: bool, console: Console
) -> Written:
    """Lay a bundle into other files, under a bar."""
    found = look(medium_of(paths))
    with console.stage(f"check and copy {found.manifest.name}", found.length) as progress:
        return resplit(found, output, volume_size, force=force, progress=progress)


def tell(console: Console, written: Written) -> None:
    """The result, the same way for split and join."""
    for note in written.notes:
        console.say(f"note: {note}")
    count = len(written.files)
    record: dict[str, Any] = {
        "folder": str(written.folder),
        "manifest_sha256": written.digest,
        "files": list(written.files),
        "bytes": written.length,
        "notes": list(written.notes),
    }
    text = (
        f"{written.folder}: {size(written.length)} in {count} file{'s' * (count > 1)}, "
        f"manifest sha256 {written.digest}"
    )
    console.result(record, text)
