"""The line that starts or stops the server: systemd's, where its unit is installed."""

from bundlectl import unitfiles, units
from bundlectl.layout import Layout
from manifests.errors import BundleError


def line(layout: Layout, verb: str) -> str:
    """What an operator types for `start`, `stop` or `restart`."""
    return by_systemd(layout, verb) or f"{layout.spoken} {verb}"


def by_systemd(layout: Layout, verb: str) -> str:
    """The line for systemd; empty where no unit is installed, or nobody can tell."""
    try:
        record = unitfiles.load(layout)
    except BundleError:
        return ""
    if not record.files:
        return ""
    return f"systemctl {'--user ' if record.wish.user else ''}{verb} {units.server_name(layout)}"
