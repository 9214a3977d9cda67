"""What starts a server: its arguments and its variables, put together from what is installed."""

import os
from dataclasses import dataclass
from pathlib import Path

from bundlectl import command, environment, sockets
from bundlectl.command import Adapter, Argument
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.models import Installed
from bundlectl.sizing import Sizing
from manifests import extras, placement
from manifests.stack import Server


@dataclass(frozen=True)
class Planned:
    """A server that could be started."""

    server: Server
    python: Path
    folder: Path  # the model's
    arguments: tuple[Argument, ...]
    environment: dict[str, str]

    @property
    def program(self) -> list[str]:
        """What is started, without the arguments."""
        return command.program(self.python, self.server)

    @property
    def words(self) -> list[str]:
        """The arguments, as a command line has them."""
        return command.flat(self.arguments)


def plan(
    layout: Layout,
    release: str,
    settings: ServeConfig,
    model: Installed,
    sizing: Sizing | None = None,
    api_key: str = "",
    name: str = "server",
) -> Planned:
    """What starts a release with a model; nothing is started, and no GPU is looked at.

    `name` is that of the process, and of the socket that it listens on (bundlectl.sockets).
    Raises UsageError where the settings ask for what can't be had.
    """
    sizing = sizing or Sizing()
    server = placement.load_manifest(layout.prefix, release)[0].server
    folder, *beside = (layout.prefix / place for place in model.folders)
    adapters = [
        Adapter(one.name, place, one.rank)
        for one, place in zip(model.adapters, beside, strict=True)
    ]
    conda = layout.environment(release)
    return Planned(
        server,
        conda / "bin/python",
        folder,
        command.arguments(
            server,
            folder,
            model.name,
            settings,
            sizing.flags,
            adapters,
            socket=sockets.file_name(name),
        ),
        environment.server_environment(
            layout,
            conda,
            {**server.environment, **sizing.environment, **extras.variables(folder)},
            settings,
            os.environ,
            api_key,
        ),
    )
