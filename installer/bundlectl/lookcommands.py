"""The commands that look at the server. They are called often, and load little."""

import time
from typing import Any

from bundlectl import following, keeping, managing, sight, spent
from bundlectl.call import Run
from bundlectl.layout import Layout
from bundlectl.process import Supervisor
from manifests import placement
from manifests.console import size
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode


def status(run: Run) -> int:
    """Say what runs; status 6 where nothing serves, 4 where this account can't see it."""
    layout = run.layout
    if why := sight.hidden(layout):
        return sight.status(run, why)
    audited, audit_line = sight.last_audit(layout)
    kept, server = keeping.status(layout), Supervisor(layout).status()
    serves = keeping.serves(kept) and server.running
    again = kept is not None and not serves and kept["slot"] is not None and not kept["gave_up"]
    record: dict[str, Any] = {
        "running": serves,
        "starting_again": again,
        "release": layout.current_release(),
        "releases": placement.installed_releases(layout.prefix),
        "front": kept,
        "audit": audited,
    }
    if serves and server.service is not None:
        record |= {
            "pid": server.pid,
            "uptime": server.uptime,
            "memory": server.memory,
            "url": server.service.url,
            "model": server.service.model,
            "adapters": list(server.service.adapters),
            "sizing": list(server.service.sizing),
            "caches": list(server.service.caches),
            "milliseconds": vars(took) if (took := spent.last(layout)) else None,
        }
        lines = [
            f"running: {server.service.model} at {server.service.url}, pid {server.pid}, "
            f"for {server.uptime} s, {server.processes} processes, {size(server.memory)}"
        ]
    else:
        state = "starting again, and refuses requests" if again else "not running"
        lines = [f"{state}; release in service: {record['release'] or 'none'}"]
        if server.running and kept is None:
            ways = " or: ".join(managing.line(layout, verb) for verb in ("start", "stop"))
            lines.append(f"a server is left whose front was killed; run: {ways}")
    if serves and kept and kept["release"] != record["release"]:
        lines.append(f"its front is a program of {kept['release']} until: {_anew(layout)}")
    lines += [*_of_front(kept), *filter(None, (audit_line,))]
    run.console.result(record, "\n".join(lines))
    return ExitCode.OK if serves else ExitCode.SERVER


def _anew(layout: Layout) -> str:
    """What replaces the front itself."""
    unit = managing.by_systemd(layout, "restart")
    return unit or f"{layout.spoken} stop, then: {layout.spoken} start"


def _of_front(kept: dict[str, Any] | None) -> list[str]:
    """What the keeper tells, as lines."""
    if kept is None:
        return []
    place = "{}:{}".format(*kept["listening"]) if kept["listening"] else "no address"
    lines = [
        f"front: {kept['state']} at {place}, {kept['requests']} requests under way, "
        f"{kept['waiting']} waiting; restarts: {kept['restarts']}"
    ]
    if failure := kept["failure"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(failure["when"]))
        lines.append(f"last failure: {when}: {failure['why']}")
    if kept["gave_up"]:
        lines.append("it failed too often and is not started again: bundlectl logs, then start")
    return lines


def logs(run: Run) -> int:
    """Show the end of the server's log, and what comes to it."""
    log, count = Supervisor(run.layout).log, run.arguments.lines
    if not run.arguments.follow:
        lines = following.last_lines(log, count)
        run.console.result({"lines": lines}, "\n".join(lines))
        return ExitCode.OK
    if run.arguments.json:
        raise UsageError("--follow has no end, and --json is one document", mend="leave one away")
    for line in following.follow(log, count):
        run.console.result({}, line.rstrip("\n"))
    return ExitCode.OK
