"""Start, stop and switch the server of an installation."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bundlectl import apikey, command, config, environment, host, keeping, models, nvidia, preflight
from bundlectl.api import at_socket
from bundlectl.command import Adapter, served_name, server_command
from bundlectl.control import Link, Lost
from bundlectl.install import write_whole
from bundlectl.keeper import settings_of
from bundlectl.layout import Layout
from bundlectl.measured import size_server
from bundlectl.models import Installed
from bundlectl.process import KEEPER, SLOTS, Service, Supervisor
from bundlectl.served import Launch
from bundlectl.smoke import Ready, wait_until_ready
from bundlectl.sockets import file_name, socket_path
from bundlectl.unpack import sync
from manifests import extras, gpu, placement
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
    return status.service if told and told["serves"] and status.running else None


def start(layout: Layout, release: str, settings: config.ServeConfig, waiting: Waiting) -> Started:
    """Start a release's server and wait for one completion; nothing of it is left on failure.

    Raises UsageError where one runs already, TargetError where the port is taken, ServerError.
    """
    if running := serving(layout):
        raise UsageError(
            f"the server runs already ({running.model} at {running.url})",
            mend="run: bundlectl restart, or: bundlectl stop",
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
    with _alone(layout):
        model = model or models.to_serve(layout, release)
        check(layout, settings, model)
        running = serving(layout)
        same = running and (running.release, running.folders) == (release, model.folders)
        if running and same and not again:
            server = Supervisor(layout)
            ready = prove(layout, server.name, running, server.log, server.alive, settings, waiting)
            commit(layout, release, model)
            return Started(running, ready)
        with keeping.conversation(layout, release) as link:
            _configure(layout, link, settings)
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
                alive = partial(_is_alive, link)
                ready = prove(layout, slot, launch.service, log, alive, settings, waiting)
                link.ask("swap")
            commit(layout, release, model)
            link.ask("retire")
        return Started(launch.service, ready, stop_first)


def prove(
    layout: Layout,
    slot: str,
    service: Service,
    log: Path,
    alive: Callable[[], bool],
    settings: config.ServeConfig,
    waiting: Waiting,
) -> Ready:
    """Wait until the server in a slot has answered a completion on its own socket.

    Raises ServerError.
    """
    return wait_until_ready(
        at_socket(socket_path(layout, slot)),
        apikey.read(layout.api_key),
        service.model,
        alive,
        log,
        settings.start_timeout,
        waiting,
    )


def stop(layout: Layout, hurry: bool = False) -> bool:
    """End the server after what it works on, and its keeper; False where nothing ran.

    `hurry` cuts requests off. So does an interrupt while this waits. Raises ServerError where a
    process does not end.
    """
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
    for slot in SLOTS:
        found |= Supervisor(layout, slot).stop(_KEEPER_PATIENCE)
    return found


def _ask_to_stop(layout: Layout, link: Link) -> None:
    try:
        link.ask("stop")
    except Lost:
        pass
    except KeyboardInterrupt:
        stop(layout, hurry=True)


def _configure(layout: Layout, link: Link, settings: config.ServeConfig) -> None:
    if link.status()["listening"] is None:
        probed = host.probe(layout.prefix, settings.host, settings.port)
        needs = preflight.Needs(host=settings.host, port=settings.port)
        preflight.refuse(preflight.examine(needs, probed))
    link.ask("configure", settings=to_data(settings_of(settings)))


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
    conda = layout.environment(release)
    folder, *beside = (layout.prefix / place for place in model.folders)
    adapters = [
        Adapter(one.name, place, one.rank)
        for one, place in zip(model.adapters, beside, strict=True)
    ]
    sizing = size_server(layout, release, manifest, folder, settings)
    words = server_command(
        conda,
        manifest.server,
        folder,
        model.name,
        settings,
        sizing.flags,
        adapters,
        socket=file_name(slot),
    )
    environment.prepare(layout)
    variables = environment.server_environment(
        layout,
        conda,
        {**manifest.server.environment, **sizing.environment, **extras.variables(folder)},
        settings,
        os.environ,
        apikey.ensure(layout.api_key),
    )
    service = Service(
        settings.host,
        settings.port,
        served_name(model.name, settings),
        release,
        model.folders,
        tuple(one.name for one in adapters),
        sizing.reasons,
    )
    return Launch(tuple(words), variables, service, settings.start_timeout, settings.stop_timeout)


def check(layout: Layout, settings: config.ServeConfig, model: Installed) -> None:
    """Say what a start would refuse, while the server before it still serves.

    Raises UsageError, IntegrityError.
    """
    models.load(layout)  # a damaged record would be told after the switch otherwise
    models.check_complete(layout, model)
    command.check_arguments(settings.extra_arguments)
    environment.check(settings)


def has_room_for_two(
    layout: Layout, release: str, settings: config.ServeConfig, model: Installed
) -> bool:
    """Whether a second server can run beside the first, as far as memory is known.

    vLLM takes its whole share of every GPU at its start: 90 per cent where nothing is set.
    """
    manifest, _ = placement.load_manifest(layout.prefix, release)
    if manifest.target.gpus != (gpu.CPU,):
        share = settings.gpu_memory_utilization
        seen = nvidia.alike(nvidia.gpus({**os.environ, **settings.environment}))
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
def _alone(layout: Layout) -> Iterator[None]:
    """One switch at a time. Raises UsageError where another is under way."""
    with (layout.run / "switch.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another bundlectl is putting a release or a model into service",
                mend="wait for it, then run the same command again",
            ) from None
        yield


def commit(layout: Layout, release: str, model: Installed) -> None:
    """Make a release and a model the ones that `start` takes; see bundlectl.models."""
    choices = models.with_choice(layout, release, model)
    if choices is not None:
        write_whole(models.path_of(layout), choices.dump(), 0o644)
    if layout.current_release() != release:
        switch(layout, release)


def switch(layout: Layout, release: str) -> None:
    """Point `current` at a release: atomically, by renaming a link over it."""
    draft = layout.prefix / ".current.new"
    try:
        draft.unlink(missing_ok=True)
        draft.symlink_to(f"{placement.RELEASES}/{release}")
        draft.replace(layout.current)
        sync(layout.prefix)
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
