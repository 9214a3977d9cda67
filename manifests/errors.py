"""Errors that teach: what happened, why, and the command or step that mends it.

Library code raises these; only the two command-line modules print them. The class of an error is
its exit code. Anything else that reaches the command line is a defect of ours.
"""

import errno
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, ClassVar

from manifests.exitcodes import ExitCode


class BundleError(Exception):
    """Base of every error that a person can mend.

    `what` is one sentence that names the file, package or value concerned; `why` and `mend` are
    one sentence each; `findings` holds every single problem when there are several.
    """

    exit_code: ClassVar[ExitCode]

    def __init__(
        self, what: str, *, why: str = "", mend: str = "", findings: Sequence[str] = ()
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.mend = mend
        self.findings = tuple(findings)

    def render(self) -> str:
        """The error as a person reads it; no trailing newline."""
        lines = [f"error: {self.what}"]
        lines += [f"  - {finding}" for finding in self.findings]
        if self.why:
            lines.append(f"  why:  {self.why}")
        if self.mend:
            lines.append(f"  mend: {self.mend}")
        return "\n".join(lines)

    def as_record(self) -> dict[str, Any]:
        """The error as --json prints it."""
        return {
            "error": self.what,
            "why": self.why,
            "mend": self.mend,
            "findings": list(self.findings),
            "exit_code": int(self.exit_code),
        }


class IntegrityError(BundleError):
    """Bytes, names, modes or links are not what their source published."""

    exit_code = ExitCode.INTEGRITY


class Damage(IntegrityError):
    """One thing that differs, in a form that an audit can list."""

    def __init__(self, path: str, expected: str, found: str, *, mend: str = "") -> None:
        super().__init__(f"{path}: expected {expected}, found {found}", mend=mend)
        self.path = path
        self.expected = expected
        self.found = found


class UsageError(BundleError):
    """A flag, a file given by the user, or the state of things forbids what was asked."""

    exit_code = ExitCode.USAGE


class SourceError(BundleError):
    """An index, channel, Hub or folder can't be reached or lacks what was asked for."""

    exit_code = ExitCode.SOURCE


class FilesystemError(BundleError):
    """No space, no permission, or a failing disk."""

    exit_code = ExitCode.FILESYSTEM


class TargetError(BundleError):
    """The target host can't run what the bundle holds."""

    exit_code = ExitCode.TARGET


class ServerError(BundleError):
    """The server did not start, or did not answer a completion."""

    exit_code = ExitCode.SERVER


_MENDS = {
    errno.ENOSPC: "free some space or choose another folder, then run the same command again",
    errno.EDQUOT: "ask for a larger quota or choose another folder, then run the command again",
    errno.EACCES: "choose a folder that you may write, or change its owner",
    errno.EPERM: "choose a folder that you may write, or change its owner",
    errno.EROFS: "the file system is mounted read-only: choose another folder",
    errno.EFBIG: "FAT32 and `ulimit -f` limit the size of a file: choose another file system "
    "(exFAT, ext4), or raise the limit",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another folder, or remove it",
    errno.ENAMETOOLONG: "choose a shorter path",
}


def from_oserror(
    error: OSError, doing: str, path: str | PathLike[str] | None = None
) -> BundleError:
    """An operating-system error as one that names the file and the mend.

    `doing` completes "while …", for example "writing the bundle".
    """
    name = error.filename if path is None else path
    where = f"{fspath(name)}: " if isinstance(name, str | PathLike) else ""
    reason = error.strerror or str(error)
    mend = _MENDS.get(error.errno or 0, "look at the file system, then run the same command again")
    return FilesystemError(f"{where}{reason} (while {doing})", mend=mend)
