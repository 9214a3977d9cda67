"""What of an installation is in use: by servers, by programs that run from it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bundlectl import procfs, running
from bundlectl.install import locked
from bundlectl.layout import Layout
from bundlectl.locks import held
from bundlectl.replace import is_folder


@dataclass(frozen=True)
class Use:
    """Something that may not be taken away, and by whom it is used."""

    folder: str  # below the prefix: "releases/ID", "models/NAME@REVISION"
    user: str  # a sentence's subject: "the server of the instance default (process 7)"


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Nobody else installs, and no instance switches, in the block.

    Raises UsageError where somebody does, FilesystemError.
    """
    with ExitStack() as stack:
        if is_folder(layout.state):
            stack.enter_context(locked(layout))
        for one in layout.every():
            if is_folder(one.run):
                what = f"the instance {one.called} is putting a release or a model into service"
                mend = "wait for it, then run the same command again"
                stack.enter_context(held(one.switch_lock, what, mend))
        yield


def uses(layout: Layout) -> Iterator[Use]:
    """Releases and models that servers of any instance, or other programs, use now.

    Processes of other accounts that keep to themselves what they run are not seen.
    """
    for one in running.everything(layout):
        yield Use(f"{layout.releases.name}/{one.service.release}", one.who)
        yield from (Use(folder, one.who) for folder in one.service.folders)
    for process, program in programs(layout):
        release = program.relative_to(layout.releases.resolve()).parts[0]
        yield Use(f"{layout.releases.name}/{release}", f"process {process.pid}")


def programs(layout: Layout) -> Iterator[tuple[procfs.Process, Path]]:
    """Processes whose program lies in a release, this one among them."""
    releases = layout.releases.resolve()
    for process in procfs.everyone():
        try:
            program = (procfs.PROC / str(process.pid) / "exe").readlink()
        except OSError:  # it has ended, or belongs to another account
            continue
        if program.is_relative_to(releases):
            yield process, program
