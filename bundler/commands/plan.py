"""`bundle plan`: everything that can be said about a bundle before it is made."""

from pathlib import Path

import click

from bundler import create as creating
from bundler import whole
from bundler.options import EPILOG, Settings, request, voice, written
from bundler.plan import from_lock, page, plan, render
from bundler.request import Request
from bundler.workshop import Workshop
from manifests.console import Console
from manifests.volumes import parse_size


@click.command(name="plan", cls=Settings, epilog=EPILOG)
@request
@written
@click.option("--html", type=Path, help="Write the plan as one page for a browser, too.")
@voice
def command(
    request: Request, workshop: Workshop, console: Console, volume_size: str, html: Path | None
) -> None:
    """Say what would be made: packages, kernels, fit, disk, licences. Makes no bundle.

    Fetches what resolving needs into the cache, as `bundle lock` does; `bundle create --dry-run`
    says less and fetches nothing.
    """
    most = parse_size(volume_size) if volume_size else 0
    draft = creating.draft(request, workshop)
    locked = creating.lock(draft, console, must_fit=False)  # the plan says what doesn't
    how = f"from {request.lock}" if request.lock is not None else "resolved for this target"
    with console.stage("look at the licences") as progress:
        made = plan(draft, from_lock(locked, how), volume_size=most, progress=progress)
    if html is not None:
        whole.write(html, page(made).encode(), "writing the page")
        console.say(f"{html}: the plan as a page")
    console.result(made.as_record(), render(made))
