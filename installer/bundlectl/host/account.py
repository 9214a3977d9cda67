"""The account that runs this: its name, folders and limits, and what the caller's shell had set.

install.sh and PREFIX/bin/bundlectl change the umask and remove variables before Python starts; they
hand down what was there in one variable: `umask=0077 locale=C LD_PRELOAD`, names and no values.
"""

import contextlib
import os
import pwd
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bundlectl.host.memory import process_room
from bundlectl.host.reading import UNLIMITED, text

CALLER = "BUNDLECTL_CALLER"


@dataclass(frozen=True)
class Account:
    """Who runs this; limits as getrlimit(2) has them, the hard one where a program can raise it."""

    uid: int = 1000
    name: str = "vllm"  # empty where the account database has none
    home: str = "/home/vllm"  # empty where neither HOME nor the database names one
    home_writable: bool = True
    umask: int = 0o022
    locale: str = "C.UTF-8"  # of LC_ALL, LC_CTYPE, LANG, the first that is set
    ends_at_logout: bool = False  # systemd ends this account's processes at its last log-out
    open_files: int = UNLIMITED
    processes: int = UNLIMITED  # threads and processes that may still be started
    locked: int = UNLIMITED  # bytes of memory that can't be swapped out
    stack: int = UNLIMITED  # bytes
    address_space: int = UNLIMITED  # bytes
    file_size: int = UNLIMITED  # bytes of the largest file that may be written
    core: int = 0  # bytes of a core dump


def read_account(environ: Mapping[str, str]) -> Account:
    """Look at this account."""
    name = home = ""
    with contextlib.suppress(KeyError, OSError):
        entry = pwd.getpwuid(os.geteuid())
        name, home = entry.pw_name, entry.pw_dir
    home = environ.get("HOME") or home
    caller = told(environ)
    return Account(
        uid=os.geteuid(),
        name=name,
        home=home,
        home_writable=os.access(home, os.W_OK | os.X_OK),
        umask=int(caller.get("umask", ""), 8) if "umask" in caller else _umask(),
        locale=caller["locale"] if "locale" in caller else locale(environ),
        ends_at_logout=ends_at_logout(Path("/"), name),
        open_files=_hard(resource.RLIMIT_NOFILE),
        processes=_least(_own_processes(), process_room()),
        locked=_hard(resource.RLIMIT_MEMLOCK),
        stack=_soft(resource.RLIMIT_STACK),
        address_space=_soft(resource.RLIMIT_AS),
        file_size=_soft(resource.RLIMIT_FSIZE),
        core=_soft(resource.RLIMIT_CORE),
    )


def told(environ: Mapping[str, str]) -> dict[str, str]:
    """What the shell script before us had found: `umask`, `locale`, and names without a value."""
    pairs = (word.partition("=") for word in environ.get(CALLER, "").split())
    found = {name: value for name, _, value in pairs}
    if not (found.get("umask", "0").isdecimal() and len(found.get("umask", "0")) < 6):
        del found["umask"]
    if set(found.get("umask", "")) & {"8", "9"}:
        del found["umask"]
    return found


def locale(environ: Mapping[str, str]) -> str:
    """The locale for characters (locale(7)); empty where none is set."""
    order = ("LC_ALL", "LC_CTYPE", "LANG")
    return next((environ[name] for name in order if environ.get(name)), "")


def ends_at_logout(root: Path, name: str) -> bool:
    """Whether logind ends all of an account's processes (logind.conf: KillUserProcesses=yes).

    Lingering accounts and root are spared (loginctl enable-linger, KillExcludeUsers=root).
    """
    if name in ("", "root") or not (root / "run/systemd/seats").exists():
        return False
    if (root / "var/lib/systemd/linger" / name).exists():
        return False
    lines = text(root / "etc/systemd/logind.conf").splitlines()
    values = [line.partition("=")[2] for line in lines if line.startswith("KillUserProcesses=")]
    return values[-1:] != [] and values[-1].strip().lower() in ("yes", "true", "1", "on")


def _umask() -> int:
    for line in text("/proc/self/status").splitlines():
        if line.startswith("Umask:"):
            with contextlib.suppress(ValueError, IndexError):
                return int(line.split()[1], 8)
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _soft(kind: int) -> int:
    return resource.getrlimit(kind)[0]


def _hard(kind: int) -> int:
    return resource.getrlimit(kind)[1]


def _least(*limits: int) -> int:
    return min((limit for limit in limits if limit != UNLIMITED), default=UNLIMITED)


def _own_processes() -> int:
    """RLIMIT_NPROC counts all threads of an account, and does not bind root (setrlimit(2))."""
    return UNLIMITED if os.geteuid() == 0 else _hard(resource.RLIMIT_NPROC)
