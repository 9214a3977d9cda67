"""`bundle rehearse`: install a bundle here, start it cold, have it answer, remove it."""

import json
from pathlib import Path

import click

from bundler import rehearsal
from bundler.options import EXIT_CODES, voice
from manifests import synced
from manifests.console import Console, size
from manifests.errors import from_oserror

_EPILOG = f"""\b
Examples:
  bundle rehearse /media/usb/NAME
  bundle rehearse /media/usb/NAME --into-python /opt/torch/bin/python
  bundle rehearse /media/usb/NAME --prefix /opt/vllm-bundle --keep-caches h200.caches
  bundle create … --caches h200.caches

This machine has to be one that the bundle is for: its GPU, its driver.

{EXIT_CODES}"""


@click.command(name="rehearse", epilog=_EPILOG)
@click.argument("medium", type=Path, metavar="NAME")
@click.option(
    "--keep-caches",
    type=Path,
    metavar="FILE",
    help="Write what the server compiled there, for `bundle create --caches`.",
)
@click.option(
    "--into-python", type=Path, metavar="PATH", help="The interpreter below an overlay bundle."
)
@click.option(
    "--prefix",
    type=Path,
    metavar="FOLDER",
    help="Install there, and remove it: compiled graphs only fit below the same path.",
)
@click.option("--proof", type=Path, metavar="FILE", help="NAME.rehearsal.json otherwise.")
@voice
def command(
    medium: Path,
    keep_caches: Path | None,
    into_python: Path | None,
    prefix: Path | None,
    proof: Path | None,
    console: Console,
) -> None:
    """Install a bundle into a scratch folder, start it cold, ask it once, and remove it."""
    path = proof or medium.absolute().with_name(f"{medium.absolute().name}.rehearsal.json")
    synced.check_target(path)
    done = rehearsal.rehearse(medium, rehearsal.Wish(prefix, into_python, keep_caches), console)
    record = done.as_record()
    try:
        synced.replace(path, json.dumps(record, indent=2, sort_keys=True).encode() + b"\n", 0o644)
    except OSError as error:
        raise from_oserror(error, "writing the proof", path) from error
    lines = [
        f"{done.bundle}: {done.model} answered {done.seconds['ready']} s after its cold start",
        *(f"rehearsed: {one}" for one in done.rehearsed),
        *(f"not rehearsed: {one}" for one in done.not_rehearsed),
    ]
    if done.caches is not None:
        count, length = done.caches["files"], size(done.caches["size"])
        lines.append(f"{keep_caches}: {count} files of compile caches, {length}")
    lines.append(f"proof: {path}")
    console.result(record, "\n".join(lines))
