"""`bundlectl doctor`: what is wrong with the server, by its logs and by this host."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bundlectl import apikey, preflight, sight
from bundlectl.call import Run
from bundlectl.checks import STOP, WARN
from bundlectl.evidence import answers
from bundlectl.layout import Layout
from bundlectl.process import Status, Supervisor
from bundlectl.redaction import Redactor
from bundlectl.scene import Scene, gather
from manifests.doctor import Answer, Diagnosis, Log, diagnose, read, read_stream
from manifests.errors import BundleError
from manifests.exitcodes import ExitCode

SUPPORT = "bundlectl support  writes one text without secrets, for whoever helps"
_STANDARD_INPUT = Path("-")
_UNFINISHED = preflight.Finding(
    "installation",
    WARN,
    False,
    "one was begun and is not complete",
    mend="sh install.sh, from the same medium, goes on where it stopped",
)


def doctor(run: Run) -> int:
    """Say what is wrong; the status is the class of the likeliest cause.

    0 where nothing is found wrong, 6 where something is that no rule knows.
    """
    layout, arguments = run.layout, run.arguments
    scenes: list[Scene] = []

    def look() -> Scene:
        """The host, looked at once, and only where something wants it."""
        if not scenes:
            with run.console.stage("look at this host"):
                scenes.append(gather(layout))
        return scenes[0]

    def ask(names: Sequence[str]) -> Mapping[str, Answer]:
        return answers(look(), names) if names and not arguments.foreign else {}

    own = not arguments.log
    unseen = sight.hidden(layout) if own else ""
    logs = (
        [read(path) for path in _readable(layout, unseen)] if own else [*map(_read, arguments.log)]
    )
    diagnosis = diagnose(
        logs,
        ask,
        language=arguments.lang,
        hide=Redactor(_secrets(layout)),
        prefix=str(layout.prefix),
    )
    # What is unreadable to this account alone is no damage.
    checks = failing(look()) if own and not (unseen and look().damage) else ()
    status = Supervisor(layout).status() if own and not unseen else None
    code = _status(diagnosis, checks)
    if unseen and code == ExitCode.OK:
        code = ExitCode.FILESYSTEM
    run.console.result(
        diagnosis.as_record() | _record(status, checks, unseen) | {"exit_code": int(code)},
        "\n".join([*filter(None, (unseen,)), *_lines(diagnosis, status, checks, arguments.all)]),
    )
    return code


def of_server(layout: Layout) -> tuple[Path, ...]:
    """The server's log, and those of trials that are newer; the newest first."""
    own = Supervisor(layout).log
    found = {path: path.stat().st_mtime for path in layout.logs.glob("*.log") if path.is_file()}
    since = found.get(own, 0.0)
    newest = sorted(found, key=lambda path: (-found[path], path.name))
    return tuple(path for path in newest if found[path] >= since)


def _readable(layout: Layout, unseen: str) -> tuple[Path, ...]:
    """The server's logs, without those of another account that are its alone."""
    found = of_server(layout)
    if not unseen:
        return found
    return tuple(path for path in found if os.access(path, os.R_OK, effective_ids=True))


def failing(scene: Scene) -> tuple[preflight.Finding, ...]:
    """What preflight finds wrong with a host; nothing where nothing is installed."""
    begun = (_UNFINISHED,) if scene.unfinished else ()
    if scene.damage:
        return (preflight.Finding("installation", STOP, False, scene.damage), *begun)
    if scene.needs is None:
        return begun
    # What is ours holds its port and its memory itself.
    needs = replace(
        scene.needs,
        port=0 if scene.held else scene.needs.port,
        memory=0 if scene.running else scene.needs.memory,
    )
    findings = preflight.examine(needs, scene.host, scene.ignored)
    return (*begun, *(one for one in findings if one.stops or one in preflight.warnings(findings)))


def _read(path: Path) -> Log:
    if path == _STANDARD_INPUT:
        return read_stream("standard input", sys.stdin.buffer)
    return read(path)


def _secrets(layout: Layout) -> tuple[str, ...]:
    try:
        return (apikey.read(layout.api_key),)
    except BundleError:  # without it, nothing that could be told
        return ()


def _status(diagnosis: Diagnosis, checks: Sequence[preflight.Finding]) -> ExitCode:
    if diagnosis.exit_code != ExitCode.OK:
        return diagnosis.exit_code
    try:
        preflight.refuse(checks)
    except BundleError as error:
        return error.exit_code
    return ExitCode.OK


def _record(
    status: Status | None, checks: Sequence[preflight.Finding], unseen: str
) -> dict[str, object]:
    found = {"preflight": [vars(finding) for finding in checks]}
    if unseen:
        return found | {"running": None, "problem": unseen}
    return {} if status is None else found | {"running": status.running}


def _lines(
    diagnosis: Diagnosis,
    status: Status | None,
    checks: Sequence[preflight.Finding],
    everything: bool,
) -> list[str]:
    lines = []
    if status is not None:
        url = status.service.url if status.service is not None else ""
        lines.append(f"the server runs at {url}" if status.running else "no server is running")
    lines.append(diagnosis.text(everything=everything))
    if checks:
        lines += ["preflight finds:", *(f"  {finding.line()}" for finding in checks)]
    if diagnosis.unexplained or (diagnosis.causes and not diagnosis.known):
        lines.append(SUPPORT)
    return lines
