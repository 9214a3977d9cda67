"""The command line of the isolated host. The only module of bundlectl that prints and exits."""

import argparse
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from bundlectl import apikey, config, install, preflight, service, smoke
from bundlectl.arguments import command_first, parser
from bundlectl.layout import Layout, check_prefix, default_prefix
from bundlectl.process import Supervisor, signals_interrupt
from manifests import audit, placement
from manifests.console import Console, size
from manifests.errors import BundleError, ServerError, UsageError, from_oserror
from manifests.exitcodes import ExitCode
from manifests.medium import Medium, NextMedium, no_other_medium

_STARTING = "start the server and wait for an answer"


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
        """The installation that is meant."""
        named = self.arguments.prefix
        return Layout(check_prefix(named if named else default_prefix()))

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

    def options(self) -> install.Options:
        """The operator's choices for an install."""
        arguments = self.arguments
        ignore = frozenset(arguments.ignore)
        settings = {"port": arguments.port, "thinking": getattr(arguments, "thinking", None)}
        chosen = {key: value for key, value in settings.items() if value is not None}
        return install.Options(ignore, chosen, getattr(arguments, "allow_downgrade", False))


def _preflight(run: Run) -> int:
    report = install.examine(run.media, run.layout, run.options(), run.next_medium)
    text = "\n".join(f"{finding.level:>5}  {finding.line()}" for finding in report.findings)
    run.console.result({"findings": [vars(finding) for finding in report.findings]}, text)
    preflight.refuse(report.findings)
    return ExitCode.OK


def _install(run: Run) -> int:
    layout, options, console = run.layout, run.options(), run.console
    manifest = install.examine(run.media, layout, options, run.next_medium).manifest
    console.say(f"{manifest.name} → {layout.prefix}")
    total = sum(member.size for member in manifest.members)
    with console.stage(f"verify and unpack {size(total)}", total) as progress:
        release = install.install(run.media, layout, options, progress, run.next_medium)
    if run.arguments.no_start:
        run.console.result(
            {"release": release, "prefix": str(layout.prefix)}, f"installed {release}"
        )
        return ExitCode.OK
    settings = config.load(layout.config_file)
    if run.arguments.foreground:
        return _foreground(run, release, settings)
    with console.stage(_STARTING, unit="s") as progress:
        started = service.activate(layout, release, settings, _seconds(progress))
    return _tell(run, started)


def _start(run: Run) -> int:
    layout = run.layout
    release, settings = service.current(layout), config.load(layout.config_file)
    if run.arguments.foreground:
        return _foreground(run, release, settings)
    with run.console.stage(_STARTING, unit="s") as progress:
        started = service.start(layout, release, settings, _seconds(progress))
    return _tell(run, started)


def _foreground(run: Run, release: str, settings: config.ServeConfig) -> int:
    layout = run.layout
    with (
        signals_interrupt(),
        service.launched(layout, release, settings) as (supervisor, target),
    ):
        with run.console.stage(_STARTING, unit="s") as progress:
            started = service.prove(layout, supervisor, target, settings, _seconds(progress))
        service.switch(layout, release)
        _tell(run, started)
        return supervisor.attend(sys.stderr.buffer.write, settings.stop_timeout)


def _seconds(progress: Callable[[int], None]) -> Callable[[float], None]:
    """A clock for a counter of whole seconds."""
    told = 0

    def advance(seconds: float) -> None:
        nonlocal told
        progress(int(seconds) - told)
        told = int(seconds)

    return advance


def _tell(run: Run, started: service.Started) -> int:
    curl = service.curl_line(run.layout, started.service)
    record = {
        "url": started.service.url,
        "model": started.service.model,
        "release": started.service.release,
        "seconds": int(started.ready.seconds),
        "curl": curl,
    }
    text = (
        f"{started.service.model} answers at {started.service.url} "
        f"(after {started.ready.seconds:.0f} s)\n"
        f"ask it:  {curl}\n"
        f"manage:  '{run.layout.command}' status | stop | start | restart | logs | audit"
    )
    run.console.result(record, text)
    return ExitCode.OK


def _stop(run: Run) -> int:
    layout = run.layout
    patience = config.load(layout.config_file).stop_timeout if layout.config_file.exists() else 30
    was = Supervisor(layout).stop(patience)
    run.console.result({"stopped": was}, "stopped" if was else "nothing was running")
    return ExitCode.OK


def _restart(run: Run) -> int:
    settings = config.load(run.layout.config_file)
    Supervisor(run.layout).stop(settings.stop_timeout)
    return _start(run)


def _status(run: Run) -> int:
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
        }
        text = (
            f"running: {status.service.model} at {status.service.url}, pid {status.pid}, "
            f"for {status.uptime} s, {status.processes} processes, {size(status.memory)}"
        )
    run.console.result(record, text)
    return ExitCode.OK if status.running else ExitCode.SERVER


def _logs(run: Run) -> int:
    log = Supervisor(run.layout).log
    try:
        with log.open(errors="replace") as handle:
            lines = [line.rstrip("\n") for line in deque(handle, run.arguments.lines)]
    except FileNotFoundError:
        lines = []
    run.console.result({"lines": lines}, "\n".join(lines))
    return ExitCode.OK


def _ask(run: Run) -> int:
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


def _audit(run: Run) -> int:
    path = run.arguments.path or run.arguments.media or run.layout.prefix
    others = tuple(run.arguments.volumes_in)
    try:
        with run.console.stage(f"audit {path}", audit.total(path, others)) as progress:
            report = audit.audit(path, progress, others)
    except OSError as error:
        raise from_oserror(error, "auditing") from error
    run.console.result(report.as_record(), report.text())
    return ExitCode.OK if report.intact else ExitCode.INTEGRITY


_ACTIONS: dict[str, Callable[[Run], int]] = {
    "install": _install,
    "preflight": _preflight,
    "start": _start,
    "stop": _stop,
    "restart": _restart,
    "status": _status,
    "logs": _logs,
    "ask": _ask,
    "audit": _audit,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    words = command_first(given)
    console = Console(quiet="--quiet" in words, json="--json" in words)
    _take_signals(staged="--stage" in given)
    try:
        arguments = parser().parse_args(words)
        return int(_ACTIONS[arguments.command](Run(arguments)))
    except BundleError as error:
        return console.fail(error)
    except KeyboardInterrupt:
        return console.interrupted()
    except BrokenPipeError:
        return ExitCode.OK
    except OSError as error:
        return console.fail(from_oserror(error, "working on the installation"))
    finally:
        _remove_stage(given)


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
