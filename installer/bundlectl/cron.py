"""What a host without systemd can have instead: lines for crontab(5). Pure."""

import hashlib
import shlex

from bundlectl.layout import Layout

#: Days of the week for the calendar words that cron can say too.
_DAYS = {"daily": "*", "weekly": "0"}


def lines(layout: Layout, audit: str = "") -> tuple[str, ...]:
    """The line that starts the server at boot and, where an audit is wanted, the one for it.

    Its minute differs from installation to installation, so that hosts that share a disk do not all
    read it at once. Other times than daily and weekly become daily ones.
    """
    command = _escaped(shlex.quote(str(layout.command)))
    instance = f" --instance {layout.instance}" if layout.instance else ""
    found = [f"@reboot {command}{instance} start --quiet"]
    if audit:
        number = hashlib.sha256(str(layout.home).encode(errors="surrogateescape")).digest()
        when = f"{number[0] % 60} {1 + number[1] % 5} * * {_DAYS.get(audit, '*')}"
        found.append(f"{when} nice -n 19 {command}{instance} audit --quiet --record")
    return tuple(found)


def _escaped(text: str) -> str:
    return text.replace("%", "\\%")  # crontab(5): a bare one ends the line
