"""What of an installation is in use: by servers, by programs that run from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bundlectl import procfs
from bundlectl.layout import Layout
from bundlectl.process import Supervisor
from manifests.errors import FilesystemError


@dataclass(frozen=True)
class Use:
    """Something that may not be taken away, and by whom it is used."""

    folder: str  # below the prefix: "releases/ID", "models/NAME@REVISION"
    user: str  # a sentence's subject: "the server of the instance default (process 7)"


def uses(layout: Layout) -> Iterator[Use]:
    """Releases and models that servers of any instance, or other programs, use now.

    Processes of other accounts that keep to themselves what they run are not seen.
    """
    for instance in layout.every():
        for name in _servers(instance):
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


def _servers(instance: Layout) -> list[str]:
    """The names of the records of servers, running or not."""
    try:
        return sorted(path.stem for path in instance.run.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError:
        raise FilesystemError(
            f"{instance.run}: this account can't see which servers run",
            mend=f"run it as the account that owns {instance.prefix}",
        ) from None
