"""Start, stop and switch the server of an installation."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bundlectl import (
    apikey,
    caches,
    command,
    config,
    environment,
    history,
    host,
    keeping,
    locks,
    managing,
    models,
    nvidia,
    planned,
    readiness,
    spent,
    startcheck,
)
from bundlectl.api import at_socket
from bundlectl.command import served_name
from bundlectl.control import Link, Lost
from bundlectl.keeper import settings_of
from bundlectl.layout import Layout
from bundlectl.measured import size_server, visible_to
from bundlectl.models import Installed
from bundlectl.process import KEEPER, SLOTS, Service, Supervisor
from bundlectl.rehearse import PLACE as REHEARSAL
from bundlectl.served import Launch
from bundlectl.smoke import Ready, wait_until_ready
from bundlectl.sockets import socket_path
from bundlectl.spent import Spent
from bundlectl.syncing import sync, write_whole
from manifests import gpu, placement
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.fit.memory import free_share
from manifests.records import to_data

Waiting = Callable[[float], object]
#: Per cent of a GPU's memory with which two servers fit.
_HALF = 50
#: Seconds that a keeper gets that doesn't answer any more.
_KEEPER_PATIENCE = 10.0


@dataclass(frozen=True)
class Started:
    """A server that has answered a completion."""

    service: Service
    ready: Ready
    stopped_first: bool = False  # the server before was stopped before this one was tried
    spent: Spent | None = None  # None: nothing was started


def current(layout: Layout) -> str:
    """The release in service.

    Raises UsageError where there is none.
    """
    release = layout.current_release()
    if not release:
        known = placement.installed_releases(layout.prefix)
        mend = "run: sh install.sh, which starts it" if known else "install one: sh install.sh"
        raise UsageError(f"{layout.prefix}: no release is in service", mend=mend)
    return release


def serving(layout: Layout) -> Service | None:
    """What is in service: a server runs, and requests get to it."""
    told = keeping.status(layout)
    status = Supervisor(layout).status()
    return status.service if keeping.serves(told) and status.running else None


def start(layout: Layout, release: str, settings: config.ServeConfig, waiting: Waiting) -> Started:
    """Start a release's server and wait for one completion; nothing of it is left on failure.

    Raises UsageError where one runs already, TargetError where the port is taken, ServerError.
    """
    if running := serving(layout):
        raise UsageError(
            f"the server runs already ({running.model} at {running.url})",
            mend=f"run: {layout.spoken} restart, or: {managing.line(layout, 'stop')}",
        )
    return activate(layout, release, settings, waiting)


def activate(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    waiting: Waiting,
    model: Installed | None = None,
    *,
    stop_first: bool = False,
    again: bool = False,
) -> Started:
    """Put a release, and a model of it, into service, only after its server has answered.

    It serves the release's chosen model unless another one is named. While another server runs, the
    new one is proved beside it, then gets every new request, and the old one ends once it has
    answered those that it has. With `stop_first`, and where there is no memory for two, the old one
    is stopped first, and new requests wait; where the new one fails after that, the old one is
    started again. What serves already is only asked, or, with `again`, replaced by its like.
    """
    begun = time.monotonic()
    keeping.check_account(layout)
    busy = "another bundlectl is putting a release or a model into service"
    with locks.held(layout.switch_lock, busy, "wait for it, then run the same command again"):
        Supervisor(layout, REHEARSAL).stop(0)  # what a killed one left holds memory
        model = model or models.to_serve(layout, release)
        check(layout, settings, model)
        running = serving(layout)
        same = running and (running.release, running.folders) == (release, model.folders)
        if running and same and not again:
            server = Supervisor(layout)
            name, log = server.name, server.log
            ready = prove(
                layout, name, running, log, server.alive, settings, waiting, new_log=False
            )
            with _serving_already(model):
                commit(layout, release, model)
            return Started(running, ready)
        startcheck.check(layout, release, settings, model)
        with keeping.conversation(layout, release) as link:
            _examine(layout, release, settings, model, link)
            link.ask("configure", settings=to_data(settings_of(settings)))
            place = link.ask("begin")
            if place["beside"]:
                stop_first |= not has_room_for_two(layout, release, settings, model)
            else:
                stop_first = False
            with _returning(link):
                if stop_first:
                    link.ask("hold")
                slot, log = place["slot"], Path(place["log"])
                launch = prepared(layout, release, settings, model, slot)
                link.ask("launch", log=log.name, launch=to_data(launch))
                checks = time.monotonic() - begun
                alive = partial(_is_alive, link)
                ready = prove(layout, slot, launch.service, log, alive, settings, waiting)
                link.ask("swap")
            with _serving_already(model):
                commit(layout, release, model)
            link.ask("retire")
        parts = (checks, ready.listening, ready.seconds - ready.listening)
        took = Spent(*(int(part * 1000) for part in parts))
        spent.keep(layout, took)
        return Started(launch.service, ready, stop_first, took)


def prove(
    layout: Layout,
    slot: str,
    service: Service,
    log: Path,
    alive: Callable[[], bool],
    settings: config.ServeConfig,
    waiting: Waiting,
    *,
    new_log: bool = True,
) -> Ready:
    """Wait until the server in a slot has answered a completion on its own socket.

    See wait_until_ready for `new_log`. Raises ServerError.
    """
    return wait_until_ready(
        at_socket(socket_path(layout, slot)),
        apikey.read(layout.api_key),
        service.model,
        alive,
        log,
        settings.start_timeout,
        waiting,
        new_log,
    )


def stop(layout: Layout, hurry: bool = False) -> bool:
    """End the server after what it works on, and its keeper; False where nothing ran.

    `hurry` cuts requests off. So does an interrupt while this waits. Raises ServerError where a
    process does not end, UsageError where it is another account's.
    """
    keeping.check_account(layout)
    return end(layout, hurry)


def end(layout: Layout, hurry: bool = False) -> bool:
    """As `stop`, for a removal, which leaves nothing that would be in its owner's way."""
    found = False
    link = keeping.connect(layout)
    if link is not None:
        found = True
        try:
            if hurry:
                link.ask("hurry")
            _ask_to_stop(layout, link)
        finally:
            link.close()
        keeping.await_end(layout, _KEEPER_PATIENCE)
    # What does not end, or what a killed keeper has left, ends without being asked.
    found |= Supervisor(layout, KEEPER).stop(_KEEPER_PATIENCE)
    for name in (*SLOTS, REHEARSAL):
        found |= Supervisor(layout, name).stop(_KEEPER_PATIENCE)
    return found


def _ask_to_stop(layout: Layout, link: Link) -> None:
    try:
        link.ask("stop")
    except Lost:
        pass
    except KeyboardInterrupt:
        end(layout, hurry=True)


def _examine(
    layout: Layout, release: str, settings: config.ServeConfig, model: Installed, link: Link
) -> None:
    """Refuse a start that can't succeed on this host; the port is ours once the front has it."""
    held = link.status()["listening"] is not None
    check_host(layout, release, settings, model, held=held)


def _is_alive(link: Link) -> bool:
    try:
        return bool(link.ask("look")["alive"])
    except (Lost, BundleError):
        return False


def prepared(
    layout: Layout, release: str, settings: config.ServeConfig, model: Installed, slot: str
) -> Launch:
    """Everything that a release's server is started with."""
    manifest, _ = placement.load_manifest(layout.prefix, release)
    sizing = size_server(layout, release, manifest, layout.prefix / model.folders[0], settings)
    key = apikey.ensure(layout.api_key)
    plan = planned.plan(layout, release, settings, model, sizing, key, slot)
    environment.prepare(layout)
    placed = caches.place(layout, release, manifest, settings, plan)
    service = Service(
        settings.host,
        settings.port,
        served_name(model.name, settings),
        release,
        model.folders,
        tuple(one.name for one in model.adapters),
        sizing.reasons,
        placed,
    )
    words = (*plan.program, *plan.words)
    return Launch(words, plan.environment, service, settings.start_timeout, settings.stop_timeout)


def check(layout: Layout, settings: config.ServeConfig, model: Installed) -> None:
    """Say what a start would refuse, while the server before it still serves.

    Raises UsageError, IntegrityError.
    """
    models.load(layout)  # a damaged record would be told after the switch otherwise
    models.check_complete(layout, model)
    command.check_arguments(settings.extra_arguments)
    environment.check(settings)


def check_host(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    model: Installed,
    *,
    held: bool,
) -> None:
    """Refuse a start that can't succeed on this host; `held`: the port is our own front's.

    Raises TargetError, FilesystemError.
    """
    manifest, _ = placement.load_manifest(layout.prefix, release)
    settings = replace(settings, port=0) if held else settings
    readiness.before_start(layout, release, manifest, settings, model)


def has_room_for_two(
    layout: Layout, release: str, settings: config.ServeConfig, model: Installed
) -> bool:
    """Whether a second server can run beside the first, as far as memory is known.

    vLLM takes its whole share of every GPU at its start: 90 per cent where nothing is set.
    """
    manifest, _ = placement.load_manifest(layout.prefix, release)
    if manifest.target.gpus != (gpu.CPU,):
        share = settings.gpu_memory_utilization
        seen = nvidia.alike(nvidia.gpus(visible_to(settings)))
        room = all(free_share(one.memory, one.free) >= share for one in seen if one.memory)
        return 0 < share <= _HALF and room
    return host.available_memory() >= model.manifest.needs.memory


@contextmanager
def _returning(link: Link) -> Iterator[None]:
    """Undo the switch where the block fails; the error says what serves then."""
    try:
        yield
    except BaseException as error:
        try:
            undone = link.ask("abort")
        except (Lost, BundleError):
            raise error from None
        if isinstance(error, BundleError) and undone["displaced"]:
            told = f"{undone['displaced']} serves again"
            if undone["problem"]:
                told = f"{undone['displaced']} does not start again ({undone['problem']})"
            error.why = "; ".join(filter(None, (error.why, told)))
        raise


@contextmanager
def _serving_already(model: Installed) -> Iterator[None]:
    """Tell of what serves, where the block fails to write it down."""
    try:
        yield
    except BundleError as error:
        told = f"{model.name} serves already, but only until the next start"
        error.why = "; ".join(filter(None, (error.why, told)))
        error.mend = "free some space, or mend the file system; then the same command again"
        raise


def commit(layout: Layout, release: str, model: Installed) -> None:
    """Make a release and a model the ones that `start` takes; see bundlectl.models."""
    with history.kept(layout):
        choices = models.with_choice(layout, release, model)
        if choices is not None:
            write_whole(models.path_of(layout), choices.dump(), 0o644)
        if layout.current_release() != release:
            switch(layout, release)


def switch(layout: Layout, release: str) -> None:
    """Point `current` at a release: atomically, by renaming a link over it."""
    draft = layout.current.with_name(".current.new")
    try:
        draft.unlink(missing_ok=True)
        draft.symlink_to(layout.link_to(release))
        draft.replace(layout.current)
        sync(layout.home)
    except OSError as error:
        raise from_oserror(error, "switching to the release") from error


def curl_line(layout: Layout, service: Service) -> str:
    """A command that asks the server, as it can be pasted; the key stays in its file."""
    key = str(layout.api_key).replace("'", "'\\''")
    return (
        f"curl {service.url}/v1/chat/completions -H 'Content-Type: application/json' "
        f"-H \"Authorization: Bearer $(cat '{key}')\" "
        f'-d \'{{"model": "{service.model}", "messages": '
        '[{"role": "user", "content": "Hello"}], "max_tokens": 64}\''
    )
