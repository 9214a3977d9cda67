"""The account that a service runs as."""

import os
import pwd
import shlex
import stat
from dataclasses import replace
from pathlib import Path

from bundlectl import history, readiness, systemd
from bundlectl.layout import Layout
from bundlectl.units import Wish
from manifests.errors import UsageError, from_oserror

_ROOT = "root"
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
    _check(layout, _account(account), audit=bool(wish.audit))
    return replace(wish, account="" if account == _ROOT else account)


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


def _account(name: str) -> pwd.struct_passwd:
    """An account that a service may have."""
    try:
        account = pwd.getpwnam(name)
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
    return account


def _check(layout: Layout, account: pwd.struct_passwd, *, audit: bool) -> None:
    """Refuse an account that can't write what it has to, and root where another one can."""
    name = shlex.quote(account.pw_name)
    try:
        if account.pw_uid == 0:
            _check_root(layout)
        trees = [layout.cache.resolve(), layout.run.resolve(), layout.logs.resolve()]
        trees = [tree for tree in trees if _strange(tree, account)]
        files = [one for one in _written(layout, audit=audit) if not _owns(account, one)]
        shut = [one for one in (layout.etc, layout.config_file) if not _reads(account, one)]
    except OSError as error:
        raise from_oserror(error, "looking at the installation") from error
    if trees or files or shut:
        commands = [
            f"{words} {shlex.join(map(str, places))}"
            for words, places in (
                (f"chown -hR {name}:", trees),
                (f"chown -h {name}:", files),
                ("chmod o+rX", shut),
            )
            if places
        ]
        raise UsageError(
            f"{account.pw_name} could not write, or read, what the server has to",
            findings=[
                *(f"{place} belongs to another account" for place in (*trees, *files)),
                *(f"{place} can't be read" for place in shut),
            ],
            mend=" && ".join([f"{layout.spoken} stop", *commands])
            + "; then the same command again",
        )


def _check_root(layout: Layout) -> None:
    places = [layout.prefix, layout.bin, layout.command, layout.releases, layout.models]
    places += [layout.home, layout.etc, layout.own_state, layout.cache]
    if (base := readiness.put_on_in_service(layout)) is not None:
        places += [Path(base.python).parent, Path(base.executable), *map(Path, base.sites)]
    others = {place: place.stat().st_uid for place in places if place.exists()}
    found = [f"{place} belongs to uid {uid}" for place, uid in others.items() if uid]
    if found:
        raise UsageError(
            "root would run what another account can change",
            findings=found,
            mend="name that account with --account, or give all of it to root: "
            f"chown -R root: {shlex.quote(str(layout.prefix))}",
        )


def _written(layout: Layout, *, audit: bool) -> list[Path]:
    """What is written, one by one, at a start and by an audit; what is in a folder is not meant."""
    places = [layout.own_state, history.path_of(layout)]
    # The first start makes the key.
    places.append(layout.api_key if layout.api_key.exists() else layout.etc)
    if audit and layout.state != layout.own_state:
        places.append(layout.state)
    return places


def _strange(tree: Path, account: pwd.struct_passwd) -> bool:
    """Whether anything in a tree is another account's."""
    return not all(_owns(account, place) for place in (tree, *tree.rglob("*")))


def _owns(account: pwd.struct_passwd, place: Path) -> bool:
    return not os.path.lexists(place) or place.lstat().st_uid == account.pw_uid


def _reads(account: pwd.struct_passwd, place: Path) -> bool:
    """Whether an account can read a file, or what is in a folder, by its mode; none is no harm."""
    if account.pw_uid == 0 or not place.exists():
        return True
    status = place.stat()
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    shift = 6 if status.st_uid == account.pw_uid else 3 if status.st_gid in groups else 0
    wanted = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
    return status.st_mode >> shift & wanted == wanted
