"""A start-up rehearsal: the real server and the real kernels, with random weights.

It proves libraries, GPU code and compilers in minutes, and fills the caches of what was compiled.
Such a server answers with HTTP 200 like any other, so it listens on a socket of its own, under a
name that says what it is, and ends before anybody is told.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bundlectl import (
    apikey,
    caches,
    command,
    environment,
    keeping,
    locks,
    measured,
    planned,
    startcheck,
)
from bundlectl.api import at_socket
from bundlectl.caches import Kept
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.models import Installed
from bundlectl.process import SLOTS, Service, Supervisor
from bundlectl.smoke import wait_until_ready
from bundlectl.sockets import socket_path
from manifests import placement, synced
from manifests.errors import UsageError

#: The process among the installation's, and the model in requests.
PLACE, NAME = "rehearsal", "REHEARSAL-NOT-FOR-USE"
#: Last on the command line, where it wins.
_RANDOM = ("--load-format", "dummy")


@dataclass(frozen=True)
class Rehearsed:
    """A server that came up with random weights, and has ended."""

    release: str
    model: str
    seconds: float  # until its first answer
    sizing: tuple[str, ...]
    notes: tuple[str, ...]
    kept: Kept | None = None  # the compile caches


def rehearse(
    layout: Layout,
    release: str,
    settings: ServeConfig,
    model: Installed,
    waiting: Callable[[float], object],
    keep_caches: Path | None = None,
) -> Rehearsed:
    """Start a release's server with random weights, have it answer once, and end it.

    What serves is left alone. `keep_caches` names a file for what was compiled, which can't be told
    from what a running server compiles: UsageError where one runs. Raises ServerError with the
    telling lines of its log where it does not come up, TargetError where there is no memory for it
    now, UsageError where another rehearsal or a switch is under way.
    """
    settings = replace(settings, served_model_name=NAME)
    keeping.check_account(layout)
    if keep_caches is not None:
        synced.check_target(keep_caches)
        _refuse_running(layout)
    notes = startcheck.check(layout, release, settings, model)
    busy = "another bundlectl is rehearsing, or putting something into service"
    with locks.held(layout.switch_lock, busy, "wait for it, then run the same command again"):
        supervisor = Supervisor(layout, PLACE)
        supervisor.stop(0)  # what a killed rehearsal left holds memory
        manifest, _ = placement.load_manifest(layout.prefix, release)
        folder = layout.prefix / model.folders[0]
        sizing = measured.size_server(layout, release, manifest, folder, settings)
        key = apikey.ensure(layout.api_key)
        plan = planned.plan(layout, release, settings, model, sizing, key, PLACE)
        environment.prepare(layout)
        placed = caches.place(layout, release, manifest, settings, plan)
        words = [*plan.program, *command.flat(plan.arguments), *_RANDOM]
        names = tuple(one.name for one in model.adapters)
        service = Service(
            settings.host, settings.port, NAME, release, model.folders, names, sizing.reasons
        )
        listening = socket_path(layout, PLACE)
        try:
            Path(listening).unlink(missing_ok=True)  # vLLM does not take a name that is taken
            supervisor.start(words, plan.environment, service)
            ready = wait_until_ready(
                at_socket(listening),
                key,
                NAME,
                supervisor.alive,
                supervisor.log,
                settings.start_timeout,
                waiting,
            )
        finally:
            supervisor.stop(settings.stop_timeout)
        kept = None
        if keep_caches is not None:
            made_for = caches.key_of(manifest, settings, plan)
            kept = caches.keep(layout, made_for, keep_caches, (key,))
    return Rehearsed(release, model.name, ready.seconds, sizing.reasons, (*notes, *placed), kept)


def _refuse_running(layout: Layout) -> None:
    for slot in SLOTS:
        if Supervisor(layout, slot).status().running:
            raise UsageError(
                "a server runs, and may be writing into the compile caches",
                mend=f"run: {layout.spoken} stop; then the same command again",
            )
