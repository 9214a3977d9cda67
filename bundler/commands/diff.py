"""`bundle diff`: what changes from one bundle to another."""

from pathlib import Path

import click

from bundler import inspecting
from bundler.inspecting import difftext
from bundler.options import EXIT_CODES, voice
from manifests.console import Console

_EPILOG = f"""\b
Examples:
  bundle diff /media/usb/OLD /media/usb/NEW
  bundle diff /opt/vllm-bundle /media/usb/NAME    what an install would bring
  bundle diff bundle.lock NAME                    does it hold what the lock names?
  bundle diff A B --json | jq -e .same            for scripts

Exit 0 also where they differ: 1 says that something is damaged, here as everywhere. What one side
does not know is named and not compared: a lock has no server settings and no sizes.

{EXIT_CODES}"""


@click.command(name="diff", epilog=_EPILOG)
@click.argument("before", type=Path, metavar="A")
@click.argument("after", type=Path, metavar="B")
@click.option(
    "--volumes-in",
    type=Path,
    multiple=True,
    metavar="DIR",
    help="Another folder with volumes of A or B; may be repeated.",
)
@voice
def command(before: Path, after: Path, volumes_in: tuple[Path, ...], console: Console) -> None:
    """Say what changes from A to B: packages, model, target, stack, settings, sizes.

    Each is a bundle's folder, an installation's prefix, a release's folder in it, or a lock.
    """
    found = inspecting.compare(
        inspecting.find_or_lock(before, volumes_in), inspecting.find_or_lock(after, volumes_in)
    )
    console.result(found.as_record(), difftext.render(found))
