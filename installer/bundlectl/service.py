"""Start, stop and switch the server of an installation."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bundlectl import apikey, config, environment, host, preflight
from bundlectl.command import served_name, server_command
from bundlectl.install import check_complete
from bundlectl.layout import Layout
from bundlectl.process import Service, Supervisor
from bundlectl.smoke import Ready, wait_until_ready
from bundlectl.unpack import sync
from manifests import placement
from manifests.errors import UsageError, from_oserror

Waiting = Callable[[float], object]


@dataclass(frozen=True)
class Started:
    """A server that has answered a completion."""

    service: Service
    ready: Ready


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
) -> Started:
    """Start a release's server and wait for one completion; nothing of it is left on failure.

    Raises UsageError where one runs already, TargetError where the port is taken, ServerError.
    """
    with launched(layout, release, settings, name) as (supervisor, service):
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
    layout: Layout, release: str, settings: config.ServeConfig, name: str = "server"
) -> Iterator[tuple[Supervisor, Service]]:
    """A server's process, started; an error in the block ends the whole process group."""
    manifest = check_complete(layout, release)
    supervisor = Supervisor(layout, name)
    if not supervisor.status().running:
        probed = host.probe(layout.prefix, settings.host, settings.port)
        needs = preflight.Needs(host=settings.host, port=settings.port)
        preflight.refuse(preflight.examine(needs, probed))
    conda = layout.environment(release)
    model = layout.prefix / manifest.model_folder()
    command = server_command(conda, manifest.server, model, manifest.model.name, settings)
    environment.prepare(layout)
    variables = environment.server_environment(
        layout,
        conda,
        manifest.server.environment,
        settings,
        os.environ,
        apikey.ensure(layout.api_key),
    )
    model_name = served_name(manifest.model.name, settings)
    service = Service(settings.host, settings.port, model_name, release)
    supervisor.start(command, variables, service)
    try:
        yield supervisor, service
    except BaseException:
        supervisor.stop(settings.stop_timeout)
        raise


def activate(
    layout: Layout, release: str, settings: config.ServeConfig, waiting: Waiting
) -> Started:
    """Put a release into service, only after its server has answered.

    While an older release serves, the new one is proved on a side port first; where it fails, the
    old one was never touched.
    """
    supervisor = Supervisor(layout)
    running = supervisor.status().service if supervisor.status().running else None
    if running is not None and running.release == release:
        started = prove(layout, supervisor, running, settings, waiting)
    elif running is not None:
        trial = replace(settings, port=free_port())
        start(layout, release, trial, waiting, "candidate")
        Supervisor(layout, "candidate").stop(settings.stop_timeout)
        supervisor.stop(settings.stop_timeout)
        try:
            started = start(layout, release, settings, waiting)
        except BaseException:
            start(layout, running.release, settings, waiting)
            raise
    else:
        started = start(layout, release, settings, waiting)
    switch(layout, release)
    return started


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
