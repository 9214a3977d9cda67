"""What of an installation is in use: by servers, by programs that run from it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bundlectl import procfs
from bundlectl.install import locked
from bundlectl.layout import Layout
from bundlectl.locks import held
from bundlectl.process import Supervisor
from bundlectl.replace import is_folder
from manifests.errors import FilesystemError


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
    for instance in layout.every():
        for name in servers(instance):
            status = Supervisor(instance, name).status()
            if status.running and status.service is not None:
                who = f"the server of the instance {instance.called} (process {status.pid})"
                yield Use(f"{layout.releases.name}/{status.service.release}", who)
                yield from (Use(folder, who) for folder in status.service.folders)
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


def servers(instance: Layout) -> list[str]:
    """The names of the records of servers, running or not; see bundlectl.process.

    Raises FilesystemError.
    """
    try:
        return sorted(path.stem for path in instance.run.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError:
        raise FilesystemError(
            f"{instance.run}: this account can't see which servers run",
            mend=f"run it as the account that owns {instance.prefix}",
        ) from None
