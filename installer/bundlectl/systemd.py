"""The host's systemd: whether it runs, where its units lie, and its own commands."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError

#: sd_booted(3): this folder is there where systemd is the host's first process.
_BOOTED = Path("/run/systemd/system")
_UNITS = Path("/etc/systemd/system")
_PATIENCE = 60  # seconds for a question
#: The status of a question without an answer in time; timeout(1) has it.
TIMED_OUT = 124


@dataclass(frozen=True)
class Manager:
    """One service manager: the host's, or an account's own."""

    folder: Path  # where units are put
    running: bool
    user: bool = False

    def says(self, *words: str, patience: float = 0) -> tuple[int, str]:
        """What systemctl answers, with its status; 127 where it does not run here.

        `patience`: seconds that what is asked for takes, beyond those of a question. After them the
        status is TIMED_OUT, and systemd goes on with it.
        """
        if not self.running:
            return 127, "systemd does not run here"
        scope = ("--user",) if self.user else ()
        return _run("systemctl", *scope, *words, patience=_PATIENCE + patience)

    @property
    def command(self) -> str:
        """The beginning of a line for the operator to type."""
        return "systemctl --user" if self.user else "systemctl"


def find(*, user: bool, environ: Mapping[str, str] = os.environ) -> Manager:
    """The service manager of the host, or of the account that asks.

    Raises UsageError for an account without a home folder.
    """
    if not user:
        return Manager(_UNITS, _BOOTED.is_dir())
    # The XDG base directory specification: a relative value is to be ignored.
    settings, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if not settings.startswith("/") and not home.startswith("/"):
        raise UsageError(
            "this account has no home folder, so it has no units of its own",
            mend="set HOME or XDG_CONFIG_HOME, or run it as root without --user",
        )
    base = Path(settings) if settings.startswith("/") else Path(home) / ".config"
    private = Path(environ.get("XDG_RUNTIME_DIR", "/nonexistent"), "systemd/private")
    return Manager(base / "systemd/user", private.exists(), user=True)


def folders(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where units of the host, and of the account that asks, are put."""
    try:
        return find(user=False).folder, find(user=True, environ=environ).folder
    except UsageError:
        return (find(user=False).folder,)


def check_calendar(expression: str) -> None:
    """Refuse what is no OnCalendar of a timer; systemd itself is asked where it is there.

    Raises UsageError.
    """
    status, said = 0, ""
    if not expression.isprintable() or not expression.strip() or "%" in expression:
        status, said = 1, "it holds what no calendar expression holds"
    elif shutil.which("systemd-analyze"):
        status, said = _run("systemd-analyze", "calendar", "--", expression)
    if status:
        raise UsageError(
            f"--audit {expression!r} is no time that systemd knows",
            why=said.strip().splitlines()[0] if said.strip() else "",
            mend="for example: daily, weekly, 'Sun *-*-* 03:00'",
        )


def _run(*words: str, patience: float = _PATIENCE) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"no answer within {patience:.0f} seconds"
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout or done.stderr
