"""One call of bundlectl: its arguments, its voice, its installation."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bundlectl.layout import (
    DEFAULT,
    Layout,
    check_instance,
    check_path,
    check_prefix,
    default_prefix,
)
from manifests.console import Console
from manifests.errors import UsageError
from manifests.medium import Medium, NextMedium, no_other_medium

if TYPE_CHECKING:
    from bundlectl import install


def _ask_for(volume: str) -> Path | None:
    """Ask for the folder where a volume lies now; an empty line gives up."""
    sys.stderr.write(f"{volume}: put in its medium, and type the folder where it is: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    return Path(answer) if answer else None


class Run:
    """One call: its arguments, its voice, its installation."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.console = Console(quiet=arguments.quiet, json=arguments.json)

    @property
    def layout(self) -> Layout:
        """The installation, and the instance of it, that are meant.

        Raises UsageError where that instance was never made.
        """
        return self.of_instance(self.arguments.instance)

    @property
    def place(self) -> Layout:
        """The folder that is meant, whatever is in it."""
        named = self.arguments.prefix
        return Layout(check_path(named if named else default_prefix()))

    def of_instance(self, name: str) -> Layout:
        """The installation, and an instance of it by its name.

        Raises UsageError where that was never made.
        """
        prefix = check_prefix(self.place.prefix)
        layout = Layout(prefix, "" if name in ("", DEFAULT) else check_instance(name))
        if layout.instance and not layout.home.is_dir():
            raise UsageError(
                f"{prefix} has no instance {layout.instance!r}",
                mend=f"see: bundlectl instances; or make it: bundlectl instance create "
                f"{layout.instance} --port N --gpus LIST",
            )
        return layout

    @property
    def media(self) -> Medium:
        """The medium that install.sh runs from."""
        if self.arguments.media is None:
            raise UsageError(
                "this command needs the bundle's medium", mend="run it as: sh install.sh …"
            )
        others = getattr(self.arguments, "volumes_in", [])
        return Medium(self.arguments.media, tuple(others), self.arguments.manifest)

    @property
    def next_medium(self) -> NextMedium:
        """What is asked for a volume that is not at hand."""
        return _ask_for if getattr(self.arguments, "next_medium", False) else no_other_medium

    def options(self) -> "install.Options":
        """The operator's choices for an install."""
        from bundlectl import install  # most calls install nothing, and it takes long to load

        arguments = self.arguments
        ignore = frozenset(arguments.ignore)
        settings = {"port": arguments.port, "thinking": getattr(arguments, "thinking", None)}
        chosen = {key: value for key, value in settings.items() if value is not None}
        return install.Options(
            ignore, chosen, getattr(arguments, "allow_downgrade", False), arguments.into_python
        )


def seconds(progress: Callable[[int], None]) -> Callable[[float], None]:
    """A clock for a counter of whole seconds."""
    told = 0

    def advance(seconds: float) -> None:
        nonlocal told
        progress(int(seconds) - told)
        told = int(seconds)

    return advance
