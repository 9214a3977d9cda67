"""`bundle elf`: what the binaries of a place ask of a host."""

from pathlib import Path

import click

from bundler.options import EPILOG, voice
from manifests.console import Console
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.stack import stacks
from wheelhouse import elf
from wheelhouse.members import size_of


@click.command(name="elf", epilog=EPILOG)
@click.argument("path", type=Path)
@click.option("--glibc", default="", help="glibc of the target, 2.31; exit 5 where it is too old.")
@voice
def command(path: Path, glibc: str, console: Console) -> int:
    """Show what a .so, a wheel, an environment or a bundle asks of a host.

    The highest symbol versions and the files that want them; libraries that nothing supplies, that
    are there twice, or of two CUDA releases; extensions made for another torch; search paths that
    lead elsewhere.
    """
    if glibc and not elf.is_version(glibc):
        raise UsageError(f"--glibc {glibc}: not a version", mend="give it as 2.31")
    with console.stage(f"read {path}", size_of(path)) as progress:
        inventory = elf.scan(path, progress)
    winning = dict.fromkeys(name for stack in stacks().values() for name in stack.winning_libraries)
    answer = elf.report(path, inventory, glibc, tuple(winning))
    console.result(answer.as_record(), answer.text())
    return ExitCode.OK if answer.fits else ExitCode.TARGET
