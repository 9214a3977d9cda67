"""The command line of the isolated host: the table of its commands, signals, and the exit status.

Only this module exits; only the commands print (the modules of _ACTIONS).
"""

import importlib
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from bundlectl.arguments import command_first, parser
from bundlectl.call import Run
from manifests.console import READER_LEFT, Console, ReaderLeft, open_streams
from manifests.errors import BundleError, IntegrityError, from_oserror
from manifests.parity import advice

#: Module and function of each command; a call loads no other's.
_ACTIONS = {
    "install": "mediacommands.install",
    "preflight": "preflightcommands.preflight",
    "start": "servecommands.start",
    "stop": "servecommands.stop",
    "restart": "servecommands.restart",
    "status": "lookcommands.status",
    "logs": "lookcommands.logs",
    "support": "support.support",
    "doctor": "doctor.doctor",
    "ask": "servecommands.ask",
    "models": "servecommands.list_models",
    "use": "servecommands.use",
    "audit": "mediacommands.audit",
    "repair": "mediacommands.repair",
    "restore": "mediacommands.restore",
    "config": "configcommand.config_command",
    "rehearse": "rehearsecommand.rehearse_command",
    "service": "servicecommands.service",
    "export": "exportcommands.export",
    "help": "helping.show",
    "inventory": "inventorycommand.inventory",
    "vulns": "vulns.vulns_command",
    "releases": "releasecommands.releases",
    "rollback": "releasecommands.rollback",
    "prune": "releasecommands.prune",
    "uninstall": "releasecommands.uninstall",
    "instances": "releasecommands.list_instances",
    "instance": "releasecommands.instance",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    open_streams()
    try:
        return _run(argv)
    except ReaderLeft:
        return READER_LEFT


def _run(argv: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    words = command_first(given)
    console = Console(quiet="--quiet" in words, json="--json" in words)
    _take_signals(staged="--stage" in given)
    try:
        arguments = parser().parse_args(words)
        with advice.given(arguments.media if arguments.command != "restore" else None):
            return int(_action(arguments.command)(Run(arguments)))
    except BundleError as error:
        return console.fail(error)
    except KeyboardInterrupt:
        return console.interrupted()
    except ReaderLeft:
        raise
    except OSError as error:
        return console.fail(from_oserror(error, "working on the installation"))
    finally:
        _remove_stage(given)


def _action(command: str) -> Callable[[Run], int]:
    """What a command does.

    Raises IntegrityError where its module can't be loaded.
    """
    module, name = _ACTIONS[command].split(".")
    try:
        found = importlib.import_module(f"bundlectl.{module}")
    except Exception as error:  # whatever a damaged file of the runtime gives
        raise IntegrityError(
            f"{sys.prefix}: damaged, the program can't be loaded ({error})",
            mend="sh install.sh repair, from the bundle's medium",
        ) from None
    return cast(Callable[[Run], int], getattr(found, name))


def _take_signals(staged: bool) -> None:
    """Let a signal end the run in order; what the caller has ignored (nohup) stays ignored.

    install.sh ignores two while Python starts, where they would end in a traceback.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        held_back = staged and number != signal.SIGHUP
        if held_back or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _remove_stage(words: list[str]) -> None:
    """Remove the runtime that install.sh unpacked for this call alone, which runs from it."""
    if "--stage" not in words:
        return
    stage = words[words.index("--stage") + 1]
    if not Path(sys.prefix).is_relative_to(stage):
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shutil.rmtree(stage, ignore_errors=True)
