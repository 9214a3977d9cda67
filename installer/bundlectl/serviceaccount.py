"""The account that a service runs as."""

import pwd
import shlex
from dataclasses import replace

from bundlectl import systemd
from bundlectl.layout import Layout
from bundlectl.units import Wish
from manifests.errors import UsageError, from_oserror

#: systemd warns of it, too.
_NOBODY = "nobody"


def decide(layout: Layout, wish: Wish) -> Wish:
    """The wish with the account that is meant.

    A service of the host never runs, as root, a program that another account can change. Raises
    UsageError, TargetError.
    """
    if not layout.marker.is_file():
        raise UsageError(f"{layout.prefix} is no installation", mend="install first: sh install.sh")
    if wish.audit:
        systemd.check_calendar(wish.audit)
    if wish.user:
        if wish.account:
            raise UsageError(
                "--account and --user can't go together",
                why="an account's own service manager runs things as that account only",
                mend="leave one of them out",
            )
        return wish
    account = wish.account or _owner(layout)
    if account and account != "root":
        _check_account(layout, account)
    return replace(wish, account="" if account == "root" else account)


def _owner(layout: Layout) -> str:
    """The account that owns the installation."""
    try:
        uid = layout.prefix.stat().st_uid
    except OSError as error:
        raise from_oserror(error, "looking at the installation", layout.prefix) from error
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise UsageError(
            f"{layout.prefix} belongs to uid {uid}, which is no account of this host",
            mend=f"give it to one: chown -R NAME {shlex.quote(str(layout.prefix))}",
        ) from None


def _check_account(layout: Layout, name: str) -> None:
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise UsageError(
            f"there is no account {name!r}",
            mend=f"make it: useradd --system --no-create-home --shell /usr/sbin/nologin "
            f"{shlex.quote(name)}",
        ) from None
    if name == _NOBODY:
        raise UsageError(
            "a service may not run as nobody",
            why="what belongs to nobody belongs to every program that has no account of its own",
            mend="name an account of the server's own",
        )
    places = [layout.cache, layout.own_state, layout.run, layout.logs, layout.etc, layout.api_key]
    strange = [place for place in places if place.exists() and place.stat().st_uid != uid]
    if strange:
        folders = shlex.join(map(str, (layout.cache, layout.own_state, layout.etc)))
        raise UsageError(
            f"{name} could not write what the server has to write",
            findings=[f"{place} belongs to another account" for place in strange],
            mend=f"bundlectl stop; chown -R {shlex.quote(name)}: {folders}; "
            "then the same command again",
        )
