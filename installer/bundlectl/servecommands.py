"""The commands about the server: start, stop, switch, ask."""

import contextlib

from bundlectl import (
    apikey,
    config,
    keep,
    keeping,
    managing,
    modellist,
    models,
    service,
    sight,
    smoke,
    startcheck,
)
from bundlectl.call import Run, seconds
from bundlectl.layout import Layout
from bundlectl.outlet import Outlet
from bundlectl.process import KEEPER, Supervisor
from manifests.errors import ServerError, UsageError
from manifests.exitcodes import ExitCode

_STDERR = 2
STARTING = "start the server and wait for an answer"


def start(run: Run) -> int:
    """Start the release in service."""
    layout = run.layout
    release, settings = service.current(layout), config.load(layout.config_file)
    if run.arguments.foreground:
        return foreground(run, release, settings)
    _tell_unit(run, "start")
    with run.console.stage(STARTING, unit="s") as progress:
        started = service.start(layout, release, settings, seconds(progress))
    return tell(run, started)


def foreground(run: Run, release: str, settings: config.ServeConfig) -> int:
    """Start a release and stay with its server."""
    layout = run.layout
    keeping.check_account(layout)

    def begin() -> None:
        with run.console.stage(STARTING, unit="s") as progress:
            started = service.start(layout, release, settings, seconds(progress))
        tell(run, started)

    with contextlib.closing(Outlet(_STDERR)) as out:
        return keep.attend(layout, release, out.write, begin)


def refuse_another(layout: Layout) -> None:
    """Refuse to stay with a server while another keeper has one.

    Raises UsageError.
    """
    keeper = Supervisor(layout, KEEPER).status()
    if keeper.running:
        raise UsageError(
            f"a server is kept already (process {keeper.pid}), so this can't stay with one",
            mend=f"leave --foreground out; or first run: {managing.line(layout, 'stop')}",
        )


def _tell_unit(run: Run, verb: str) -> None:
    """Say that systemd is to do it, where it has a unit."""
    if unit := managing.by_systemd(run.layout, verb):
        run.console.say(f"note: the server is a service of systemd: {unit}")


def tell(run: Run, started: service.Started) -> int:
    """Say where the server is, and how it is asked."""
    curl = service.curl_line(run.layout, started.service)
    record = {
        "url": started.service.url,
        "model": started.service.model,
        "adapters": list(started.service.adapters),
        "sizing": list(started.service.sizing),
        "caches": list(started.service.caches),
        "release": started.service.release,
        "seconds": int(started.ready.seconds),
        "milliseconds": vars(started.spent) if started.spent else None,
        "curl": curl,
    }
    for line in (*started.service.sizing, *started.service.caches):
        run.console.say(line)
    took = f"; {started.spent.text()}" if started.spent else ""
    text = (
        f"{started.service.model} answers at {started.service.url} "
        f"(after {started.ready.seconds:.0f} s{took})\n"
        f"ask it:  {curl}\n"
        f"manage:  {run.layout.spoken} status | stop | start | restart | logs | audit"
    )
    run.console.result(record, text)
    return ExitCode.OK


def list_models(run: Run) -> int:
    """List the installed models."""
    listed = modellist.lines(run.layout)
    run.console.result(modellist.record(listed), modellist.text(listed))
    if why := sight.hidden(run.layout):
        run.console.say(f"note: which of them is in service: {why}")
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
    """End the server, once it has answered what it works on."""
    told = keeping.status(run.layout)
    if told and told["requests"]:
        run.console.say(f"waits for {told['requests']} requests (Ctrl-C cuts them off)")
    _tell_unit(run, "stop")
    was = service.stop(run.layout)
    run.console.result({"stopped": was}, "stopped" if was else "nothing was running")
    return ExitCode.OK


def restart(run: Run) -> int:
    """Put the release in service into service again, with the settings of now."""
    layout = run.layout
    release, settings = service.current(layout), config.load(layout.config_file)
    if run.arguments.foreground:
        model = models.to_serve(layout, release)
        keeping.check_account(layout)
        service.check(layout, settings, model)
        service.check_host(layout, release, settings, model, held=True)
        startcheck.check(layout, release, settings, model)
        service.stop(layout)
        return foreground(run, release, settings)
    with run.console.stage(STARTING, unit="s") as progress:
        started = service.activate(layout, release, settings, seconds(progress), again=True)
    return tell(run, started)


def ask(run: Run) -> int:
    """Ask the server one question."""
    arguments, target = run.arguments, service.serving(run.layout)
    if target is None:
        mend = f"run: {managing.line(run.layout, 'start')}"
        raise ServerError("no server is running", mend=mend)
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
