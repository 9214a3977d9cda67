"""Whether this account may see what runs: the records of servers are their owner's alone."""

import os
import pwd
from typing import Any

from bundlectl import auditrecord
from bundlectl.call import Run
from bundlectl.layout import Layout
from manifests import placement
from manifests.errors import BundleError
from manifests.exitcodes import ExitCode


def hidden(layout: Layout) -> str:
    """Why this account can't see what runs, and whose word it takes; empty where it can."""
    try:
        owner = layout.run.stat().st_uid
    except FileNotFoundError:
        return ""
    except OSError:
        owner = layout.prefix.stat().st_uid
    if os.access(layout.run, os.R_OK | os.X_OK, effective_ids=True):
        return ""
    return f"the state is not visible to this account (run it as {_name(owner)})"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def last_audit(layout: Layout) -> tuple[dict[str, Any], str]:
    """What the last recorded audit found, as a record, and as a line, if there was one."""
    try:
        last = auditrecord.load(layout)
    except BundleError as error:
        return {"problem": error.what}, error.what
    if not last.finished:
        return {}, ""
    record = {"finished": last.finished, "intact": last.intact, "findings": last.count}
    return record, last.line()


def status(run: Run, why: str) -> int:
    """What `status` can say without seeing what runs."""
    layout = run.layout
    audited, line = last_audit(layout)
    release = layout.current_release()
    record = {
        "running": None,
        "problem": why,
        "release": release,
        "releases": placement.installed_releases(layout.prefix),
        "audit": audited,
    }
    lines = [why, f"release in service: {release or 'none'}", *filter(None, (line,))]
    run.console.result(record, "\n".join(lines))
    return ExitCode.FILESYSTEM
