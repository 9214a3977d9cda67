"""`bundle lock`: pin everything by digest."""

import dataclasses
from pathlib import Path

import click

from bundler import create as creating
from bundler import locking, media
from bundler.options import EPILOG, Settings, request, voice
from bundler.request import Request
from bundler.workshop import Workshop
from manifests.console import Console


@click.command(name="lock", cls=Settings, epilog=EPILOG)
@request
@click.option(
    "--lock", type=Path, default=Path("bundle.lock"), show_default=True, help="File to write."
)
@voice
def command(request: Request, workshop: Workshop, console: Console) -> None:
    """Pin everything by digest and write bundle.lock, which `bundle create --lock` follows."""
    target = request.lock or Path("bundle.lock")
    media.check_output(target.parent)
    draft = creating.draft(dataclasses.replace(request, lock=None), workshop)
    made = locking.make_lock(draft.request, draft.choice, draft.sources, workshop, console)
    locking.write_lock(made, target)
    record = {"lock": str(target), "sha256": made.digest(), "wheels": len(made.wheels)}
    text = f"{target}: {len(made.conda)} conda packages, {len(made.wheels)} wheels, 1 model"
    console.result(record, text)
