"""Find the keeper of an installation, or start one."""

import contextlib
import os
import pwd
import sys
import time
from collections.abc import Iterator
from typing import Any

from bundlectl import managing
from bundlectl.control import PROTOCOL, SOCKET, Link, Lost
from bundlectl.layout import Layout
from bundlectl.process import KEEPER, Service, Supervisor
from bundlectl.sockets import socket_path
from manifests.errors import ServerError, UsageError, from_oserror

_PATIENCE = 30.0  # seconds until a keeper listens; it may have to end an earlier one's server
_POLL = 0.05  # seconds


def connect(layout: Layout) -> Link | None:
    """A conversation with the keeper that runs, if one does."""
    try:
        return Link(socket_path(layout, SOCKET))
    except Lost:
        return None


def status(layout: Layout) -> dict[str, Any] | None:
    """What the keeper says of itself; None where none runs."""
    link = connect(layout)
    if link is None:
        return None
    with contextlib.closing(link), contextlib.suppress(Lost):
        return link.status()
    return None


def serves(told: dict[str, Any] | None) -> bool:
    """Whether requests are taken, by what `status` gives; those that wait for a switch are."""
    return told is not None and told["state"] != "closed"


def check_account(layout: Layout) -> None:
    """Refuse to start or stop an account's servers as another one, root included.

    What that leaves (locks, logs, a server of root's) is in the account's way afterwards. Raises
    UsageError.
    """
    try:
        uid = layout.run.stat().st_uid
    except OSError as error:
        raise from_oserror(error, "looking whose servers these are") from error
    if uid == os.geteuid():
        return
    try:
        name = user = pwd.getpwuid(uid).pw_name
    except KeyError:
        name, user = f"uid {uid}", f"'#{uid}'"
    unit = managing.by_systemd(layout, "restart")
    ways = [f"sudo -u {user} {layout.spoken} …", *([unit] if "--user" not in unit else [])]
    raise UsageError(
        f"the server of {layout.home} belongs to {name}, and this is another account",
        why="what this one started or locked, that one could neither end nor write",
        mend="run: " + "; or: ".join(filter(None, ways)),
    )


@contextlib.contextmanager
def conversation(layout: Layout, release: str) -> Iterator[Link]:
    """A conversation with the keeper, which is started from that release where none runs.

    Raises ServerError where it does not come up or ends, UsageError where it is another version's
    or another account's.
    """
    check_account(layout)
    link = connect(layout) or _summon(layout, release)
    with contextlib.closing(link):
        try:
            spoken = link.status().get("protocol")
            if spoken != PROTOCOL:
                raise UsageError(
                    "the running front is of another version",
                    mend="run: bundlectl stop; then the same command again",
                )
            yield link
        except Lost as lost:
            raise ServerError(
                f"the server's keeper has left: {lost}",
                why=f"its words are in {Supervisor(layout, KEEPER).log}",
                mend="run: bundlectl start",
            ) from None


def await_end(layout: Layout, patience: float) -> None:
    """Give a keeper that was asked to end so many seconds to do so, with its own exit status."""
    supervisor = Supervisor(layout, KEEPER)
    deadline = time.monotonic() + patience
    while supervisor.alive() and time.monotonic() < deadline:
        time.sleep(_POLL)


def _summon(layout: Layout, release: str) -> Link:
    supervisor = Supervisor(layout, KEEPER)
    if not supervisor.status().running:
        python = layout.runtime(release) / "bin/python"
        # The release's own, for ours may be a copy that install.sh removes when we end.
        program = [str(python), "-I"] if python.exists() else [sys.executable]
        words = [*program, "-B", "-X", "utf8", "-m", "bundlectl.keep"]
        words += [str(layout.prefix), release, *filter(None, (layout.instance,))]
        supervisor.start(words, {"PATH": "/usr/bin:/bin"}, Service("", 0, "", release))
    deadline = time.monotonic() + _PATIENCE
    while (link := connect(layout)) is None:
        if not supervisor.alive() or time.monotonic() >= deadline:
            raise ServerError(
                "the server's keeper did not come up",
                why=f"its words are in {supervisor.log}",
                mend="read them; then run: bundlectl start",
            )
        time.sleep(_POLL)
    return link
