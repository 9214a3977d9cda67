"""The commands about the server: start, stop, switch, look, ask."""

import sys
from collections import deque

from bundlectl import apikey, config, modellist, models, service, smoke, startcheck
from bundlectl.call import Run, seconds
from bundlectl.process import Supervisor, signals_interrupt
from manifests import placement
from manifests.console import size
from manifests.errors import ServerError
from manifests.exitcodes import ExitCode

STARTING = "start the server and wait for an answer"


def start(run: Run) -> int:
    """Start the release in service."""
    layout = run.layout
    release, settings = service.current(layout), config.load(layout.config_file)
    if run.arguments.foreground:
        return foreground(run, release, settings)
    with run.console.stage(STARTING, unit="s") as progress:
        started = service.start(layout, release, settings, seconds(progress))
    return tell(run, started)


def foreground(run: Run, release: str, settings: config.ServeConfig) -> int:
    """Start a release and stay with its server."""
    layout = run.layout
    model = models.to_serve(layout, release)
    with (
        signals_interrupt(),
        service.launched(layout, release, settings, model=model) as (supervisor, target),
    ):
        with run.console.stage(STARTING, unit="s") as progress:
            started = service.prove(layout, supervisor, target, settings, seconds(progress))
        service.commit(layout, release, model)
        return supervisor.attend(
            sys.stderr.buffer.write, settings.stop_timeout, lambda: tell(run, started)
        )


def tell(run: Run, started: service.Started) -> int:
    """Say where the server is, and how it is asked."""
    curl = service.curl_line(run.layout, started.service)
    record = {
        "url": started.service.url,
        "model": started.service.model,
        "adapters": list(started.service.adapters),
        "sizing": list(started.service.sizing),
        "release": started.service.release,
        "seconds": int(started.ready.seconds),
        "curl": curl,
    }
    for line in started.service.sizing:
        run.console.say(line)
    text = (
        f"{started.service.model} answers at {started.service.url} "
        f"(after {started.ready.seconds:.0f} s)\n"
        f"ask it:  {curl}\n"
        f"manage:  '{run.layout.command}' status | stop | start | restart | logs | audit"
    )
    run.console.result(record, text)
    return ExitCode.OK


def list_models(run: Run) -> int:
    """List the installed models."""
    listed = modellist.lines(run.layout)
    run.console.result(modellist.record(listed), modellist.text(listed))
    return ExitCode.OK


def use(run: Run) -> int:
    """Put another model into service."""
    layout, arguments = run.layout, run.arguments
    release = arguments.release or service.current(layout)
    model = models.find(layout, release, arguments.model)
    settings = config.load(layout.config_file)
    with run.console.stage(f"serve {model.name}, once it has answered", unit="s") as progress:
        started = service.activate(
            layout, release, settings, seconds(progress), model, stop_first=arguments.stop_first
        )
    if started.stopped_first and not arguments.stop_first:
        run.console.say("it was stopped first: there is no memory for two servers at a time")
    return tell(run, started)


def stop(run: Run) -> int:
    """End the server."""
    layout = run.layout
    patience = config.load(layout.config_file).stop_timeout if layout.config_file.exists() else 30
    Supervisor(layout, service.CANDIDATE).stop(0)  # of a trial that was killed
    was = Supervisor(layout).stop(patience)
    run.console.result({"stopped": was}, "stopped" if was else "nothing was running")
    return ExitCode.OK


def restart(run: Run) -> int:
    """Stop and start."""
    layout = run.layout
    release, settings = service.current(layout), config.load(layout.config_file)
    model = models.to_serve(layout, release)
    service.check(layout, settings, model)
    startcheck.check(layout, release, settings, model)
    Supervisor(run.layout, service.CANDIDATE).stop(0)  # of a trial that was killed
    Supervisor(run.layout).stop(settings.stop_timeout)
    return start(run)


def status(run: Run) -> int:
    """Say what runs; status 6 where nothing does."""
    layout = run.layout
    status = Supervisor(layout).status()
    record = {
        "running": status.running,
        "release": layout.current_release(),
        "releases": placement.installed_releases(layout.prefix),
    }
    text = f"not running; release in service: {record['release'] or 'none'}"
    if status.running and status.service is not None:
        record |= {
            "pid": status.pid,
            "uptime": status.uptime,
            "memory": status.memory,
            "url": status.service.url,
            "model": status.service.model,
            "adapters": list(status.service.adapters),
            "sizing": list(status.service.sizing),
        }
        text = (
            f"running: {status.service.model} at {status.service.url}, pid {status.pid}, "
            f"for {status.uptime} s, {status.processes} processes, {size(status.memory)}"
        )
    run.console.result(record, text)
    return ExitCode.OK if status.running else ExitCode.SERVER


def logs(run: Run) -> int:
    """Show the end of the server's log."""
    log = Supervisor(run.layout).log
    try:
        with log.open(errors="replace") as handle:
            lines = [line.rstrip("\n") for line in deque(handle, run.arguments.lines)]
    except FileNotFoundError:
        lines = []
    run.console.result({"lines": lines}, "\n".join(lines))
    return ExitCode.OK


def ask(run: Run) -> int:
    """Ask the server one question."""
    status = Supervisor(run.layout).status()
    if not status.running or status.service is None:
        raise ServerError("no server is running", mend="run: bundlectl start")
    arguments, target = run.arguments, status.service
    answer = smoke.ask(
        target.url,
        apikey.read(run.layout.api_key),
        target.model,
        arguments.text,
        arguments.thinking,
        arguments.max_tokens,
    )
    record = {
        "content": answer.content,
        "reasoning": answer.reasoning,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
    }
    thought = f"(thought: {answer.reasoning})\n" if answer.reasoning else ""
    tokens = f"[{answer.prompt_tokens} prompt tokens, {answer.completion_tokens} answered]"
    run.console.result(record, f"{thought}{answer.content}\n{tokens}")
    return ExitCode.OK
