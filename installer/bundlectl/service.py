"""Start, stop and switch the server of an installation."""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bundlectl import (
    apikey,
    command,
    config,
    environment,
    history,
    host,
    models,
    nvidia,
    readiness,
    startcheck,
)
from bundlectl.command import Adapter, served_name, server_command
from bundlectl.install import write_whole
from bundlectl.layout import Layout
from bundlectl.measured import size_server, visible_to
from bundlectl.models import Installed
from bundlectl.process import Service, Supervisor
from bundlectl.smoke import Ready, wait_until_ready
from bundlectl.unpack import sync
from manifests import extras, gpu, placement
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.fit.memory import free_share

Waiting = Callable[[float], object]
#: A second server beside the one in service, for a trial.
CANDIDATE = "candidate"
#: Per cent of a GPU's memory with which two servers fit.
_HALF = 50


@dataclass(frozen=True)
class Started:
    """A server that has answered a completion."""

    service: Service
    ready: Ready
    stopped_first: bool = False  # there was no trial beside the server that ran before


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


def start(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    waiting: Waiting,
    name: str = "server",
    model: Installed | None = None,
) -> Started:
    """Start a release's server and wait for one completion; nothing of it is left on failure.

    It serves the release's chosen model unless another one is named. Raises UsageError where one
    runs already, TargetError where the port is taken, ServerError.
    """
    with launched(layout, release, settings, name, model) as (supervisor, service):
        return prove(layout, supervisor, service, settings, waiting)


def prove(
    layout: Layout,
    supervisor: Supervisor,
    service: Service,
    settings: config.ServeConfig,
    waiting: Waiting,
) -> Started:
    """Wait until a server has answered a completion.

    Raises ServerError.
    """
    ready = wait_until_ready(
        service.url,
        apikey.read(layout.api_key),
        service.model,
        supervisor.alive,
        supervisor.log,
        settings.start_timeout,
        waiting,
    )
    return Started(service, ready)


@contextmanager
def launched(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    name: str = "server",
    model: Installed | None = None,
) -> Iterator[tuple[Supervisor, Service]]:
    """A server's process, started; an error in the block ends the whole process group."""
    manifest, _ = placement.load_manifest(layout.prefix, release)
    model = model or models.to_serve(layout, release)
    models.check_complete(layout, model)
    startcheck.check(layout, release, settings, model)
    supervisor = Supervisor(layout, name)
    if not supervisor.status().running:
        readiness.before_start(layout, release, manifest, settings, model)
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
        sizing=sizing.flags,
        adapters=adapters,
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
    supervisor.start(words, variables, service)
    try:
        yield supervisor, service
    except BaseException:
        supervisor.stop(settings.stop_timeout)
        raise


def activate(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    waiting: Waiting,
    model: Installed | None = None,
    *,
    stop_first: bool = False,
) -> Started:
    """Put a release, and a model of it, into service, only after its server has answered.

    While another server runs, the new one is proved on a side port first; where it fails, the old
    one was never touched. With `stop_first`, and where there is no memory for two, the old one is
    stopped first instead. Where the new one fails after that, the old one is started again.
    """
    with _alone(layout):
        model = model or models.to_serve(layout, release)
        supervisor = Supervisor(layout)
        status = supervisor.status()
        running = status.service if status.running else None
        if running is None:
            started = start(layout, release, settings, waiting, model=model)
        elif (running.release, running.folders) == (release, model.folders):
            started = prove(layout, supervisor, running, settings, waiting)
        else:
            check(layout, settings, model)
            startcheck.check(layout, release, settings, model)
            Supervisor(layout, CANDIDATE).stop(0)  # what a killed trial left holds memory
            stop_first |= not has_room_for_two(layout, release, settings, model)
            if not stop_first:
                _try_beside(layout, release, settings, waiting, model)
            supervisor.stop(settings.stop_timeout)
            with _returning(layout, running, settings, waiting):
                started = start(layout, release, settings, waiting, model=model)
            started = replace(started, stopped_first=stop_first)
        commit(layout, release, model)
    return started


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
        seen = nvidia.alike(nvidia.gpus(visible_to(settings)))
        room = all(free_share(one.memory, one.free) >= share for one in seen if one.memory)
        return 0 < share <= _HALF and room
    return host.available_memory() >= model.manifest.needs.memory


def _try_beside(
    layout: Layout,
    release: str,
    settings: config.ServeConfig,
    waiting: Waiting,
    model: Installed,
) -> None:
    """Prove a server on a side port, and stop it."""
    trial = replace(settings, host="127.0.0.1", port=free_port())
    start(layout, release, trial, waiting, CANDIDATE, model)
    Supervisor(layout, CANDIDATE).stop(settings.stop_timeout)


@contextmanager
def _returning(
    layout: Layout, before: Service, settings: config.ServeConfig, waiting: Waiting
) -> Iterator[None]:
    """Start what served before where the block fails; the error says so."""
    try:
        yield
    except BaseException as error:
        told = f"{before.model} of {before.release} serves again"
        try:
            _restart(layout, before, settings, waiting)
        except BundleError as again:
            if not isinstance(error, BundleError):
                raise
            told = f"{before.model} of {before.release} does not start again ({again.what})"
        if isinstance(error, BundleError):
            error.why = "; ".join(filter(None, (error.why, told)))
        raise


def _restart(
    layout: Layout, before: Service, settings: config.ServeConfig, waiting: Waiting
) -> None:
    served = (m for m in models.installed(layout) if m.folders == before.folders)
    start(layout, before.release, settings, waiting, model=next(served, None))


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One switch at a time. Raises UsageError where another is under way."""
    with layout.switch_lock.open("w") as handle:
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


def free_port() -> int:
    """A port on the loopback address that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def curl_line(layout: Layout, service: Service) -> str:
    """A command that asks the server, as it can be pasted; the key stays in its file."""
    key = str(layout.api_key).replace("'", "'\\''")
    return (
        f"curl {service.url}/v1/chat/completions -H 'Content-Type: application/json' "
        f"-H \"Authorization: Bearer $(cat '{key}')\" "
        f'-d \'{{"model": "{service.model}", "messages": '
        '[{"role": "user", "content": "Hello"}], "max_tokens": 64}\''
    )
