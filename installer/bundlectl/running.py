"""What the servers of an installation run from, a rehearsal's and the keeper among them."""

from collections.abc import Iterator
from dataclasses import dataclass

from bundlectl.layout import Layout
from bundlectl.process import KEEPER, Service, Supervisor
from manifests import placement
from manifests.errors import FilesystemError


@dataclass(frozen=True)
class Running:
    """A process that runs by a record of ours; see bundlectl.process."""

    instance: Layout
    name: str  # of the record
    pid: int
    service: Service

    @property
    def who(self) -> str:
        """A sentence's subject."""
        kind = self.name if self.name == KEEPER else "server"
        return f"the {kind} of the instance {self.instance.called} (process {self.pid})"

    @property
    def part(self) -> str:
        """What it runs from of its release, below the prefix."""
        kind = placement.RUNTIME if self.name == KEEPER else placement.ENVIRONMENT
        return f"{placement.RELEASES}/{self.service.release}/{kind}"

    def models(self, every: tuple[str, ...]) -> tuple[str, ...]:
        """The folders of the models that it reads; `every`: those that there are."""
        if self.name == KEEPER:
            return ()
        return self.service.folders or every  # an older program did not write them down


def everything(layout: Layout) -> Iterator[Running]:
    """What runs of all instances.

    Raises FilesystemError where this account can't see it.
    """
    for instance in layout.every():
        for name in records(instance):
            status = Supervisor(instance, name).status()
            if status.running and status.service is not None:
                yield Running(instance, name, status.pid, status.service)


def records(instance: Layout) -> list[str]:
    """The names of an instance's records, of what runs and of what has died.

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
