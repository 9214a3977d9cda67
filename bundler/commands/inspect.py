"""`bundle inspect`: what is in a bundle, without unpacking it."""

from pathlib import Path

import click

from bundler import inspecting
from bundler.inspecting import licences, text
from bundler.options import EXIT_CODES, voice, volumes_in
from manifests.console import Console
from manifests.errors import UsageError
from wheelhouse.members import size_of

_EPILOG = f"""\b
Examples:
  bundle inspect /media/usb/NAME
  bundle inspect /media/disc1/NAME --volumes-in /media/disc2 --all
  bundle inspect /opt/vllm-bundle                the release in service
  bundle inspect NAME --raw manifest | sha256sum    what identifies the bundle

Only the manifest and the lock are read, and checked while they are; `bundle audit` checks the
rest. `bundle schema inspect` prints the form of the --json.

{EXIT_CODES}"""


@click.command(name="inspect", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME")
@volumes_in
@click.option("--all", "everything", is_flag=True, help="List each package, file and digest.")
@click.option(
    "--licences", "with_licences", is_flag=True, help="Read the packages' licences too (slower)."
)
@click.option(
    "--raw",
    type=click.Choice(["manifest", "lock"]),
    help="Print bundle.json or bundle.lock as it is, and nothing else.",
)
@voice
def command(
    place: Path,
    volumes_in: tuple[Path, ...],
    everything: bool,
    with_licences: bool,
    raw: str | None,
    console: Console,
) -> None:
    """Say what a bundle is and holds: on its media, in volumes, or installed.

    NAME is a bundle's folder, a volume, an installation's prefix, or a release's folder in it.
    """
    subject = inspecting.find(place, volumes_in)
    if raw is not None:
        click.echo(_raw(subject, raw), nl=False)
        return
    stated = None
    if with_licences:
        _check_together(subject)
        with console.stage("read the licences", size_of(subject.environment)) as progress:
            stated = licences.stated(subject, progress)
    found = inspecting.inspect(subject, stated)
    console.result(found.as_record(), text.render(found, everything))


def _check_together(subject: inspecting.Subject) -> None:
    """The environment is read from one folder."""
    apart = [file.name for file in subject.files if file.place != str(subject.path)]
    if apart:
        raise UsageError(
            f"--licences: {', '.join(apart)} not in {subject.path}",
            why="the environment is read from one folder",
            mend="copy the volumes together, or leave --licences out",
        )


def _raw(subject: inspecting.Subject, what: str) -> bytes:
    data = subject.raw_manifest if what == "manifest" else subject.raw_lock
    if not data:
        raise UsageError(
            f"{subject.path}: the {what} is out of reach",
            why="; ".join(subject.notes),
            mend="name the folder of the missing volume with --volumes-in DIR",
        )
    return data
