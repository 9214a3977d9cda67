"""What an interrupted audit had found right, for the same audit to go on.

A file of lines that are only ever added to, so that a kill leaves all but the last of them whole. A
file of the tree is taken as right where it was found right, and its device, inode, length, mtime
and ctime are still the same. That says that nobody has changed it since by way of the file system:
ctime can't be set (inode(7)). It doesn't say that the disk still gives the same bytes. So an
audit that has ended removes its file, and the next one reads everything anew.
"""

import fcntl
import os
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import canonical
from manifests.errors import UsageError, from_oserror

#: Nanoseconds after a change in which a second one may get the same time stamp: the coarsest that a
#: file system has are FAT's two seconds.
_SETTLED = 3_000_000_000
_HEAD = "audit"
#: Bytes of a line; a head has a path and the digests and folders of some releases.
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Resumed:
    """What was taken from earlier runs of this audit."""

    files: int
    size: int  # bytes
    since: int  # when the first of them began, seconds since the epoch

    def line(self) -> str:
        """For people."""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return (
            f"resumed: {self.files} files, {self.size} bytes, were found right by earlier runs of "
            f"this audit, since {when}, and are unchanged by inode, length, mtime and ctime; they "
            "were not read again"
        )

    def as_record(self) -> dict[str, Any]:
        """As --json prints it."""
        return {"files": self.files, "bytes": self.size, "since": self.since}


class Memory:
    """The file of one audit, which is locked; `open_memory` makes it."""

    def __init__(self, path: Path, handle: int, since: int, known: dict[str, list[int]]) -> None:
        self._path = path
        self._handle = handle
        self._known = known
        self._lock = threading.Lock()
        self.since = since

    def holds(self, name: str, status: os.stat_result) -> bool:
        """Whether a file was found right, and is as it was then."""
        return self._known.get(name) == _state(status)

    def add(self, name: str, status: os.stat_result, begun: int) -> None:
        """Remember a file that is right; `status` is from before it was read.

        `begun` is when reading began, in nanoseconds since the epoch: a change during a long one
        may have the time stamp of the change just before.

        Raises FilesystemError.
        """
        if begun - status.st_ctime_ns < _SETTLED:
            return
        try:
            with self._lock:
                _write(self._handle, canonical.dumps([name, _state(status)]))
        except OSError as error:
            raise from_oserror(error, "keeping what the audit has found", self._path) from error

    def done(self) -> None:
        """Forget all: the audit has come to its end."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the file to the next run."""
        os.close(self._handle)


def seed_in(path: Path) -> str:
    """The seed of the audit that a file is of; empty where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            head = canonical.loads(file.readline(_LONGEST))
        return str(head[_HEAD]["seed"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def open_memory(path: Path, about: dict[str, Any]) -> Memory:
    """The memory of the audit `about` (what it is of and how it reads), new or gone on with.

    Raises UsageError where the file is another audit's, no audit's or in use, FilesystemError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise from_oserror(error, "opening the audit's state", path) from error
    try:
        return _opened(path, handle, about)
    except BaseException:
        os.close(handle)
        raise


def _opened(path: Path, handle: int, about: dict[str, Any]) -> Memory:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise UsageError(f"{path}: no regular file", mend="name another file with --resume")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{path}: others can write it",
            why="what it holds is taken as found right",
            mend="name a file with --resume that only you can write",
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read()
        lines = data.splitlines(keepends=True)
        if not lines:
            since = int(time.time())
            _write(handle, canonical.dumps({_HEAD: about, "since": since}))
            return Memory(path, handle, since, {})
        since = _head(path, lines[0], about)
        known, length = _known(lines)
        os.ftruncate(handle, length)
    except BlockingIOError:
        raise UsageError(
            f"{path}: another audit is writing it", mend="wait until it has ended"
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the audit's state", path) from error
    return Memory(path, handle, since, known)


def _head(path: Path, line: bytes, about: dict[str, Any]) -> int:
    try:
        head = canonical.loads(line)
        found, since = dict(head[_HEAD]), int(head["since"])
    except (ValueError, LookupError, TypeError):
        raise UsageError(
            f"{path}: not the state of an audit", mend="name another file with --resume"
        ) from None
    if found != about:
        other = sorted(key for key in about if found.get(key) != about[key])
        raise UsageError(
            f"{path}: is of another audit ({', '.join(other)} differ)",
            why="only the same audit, interrupted, can be gone on with",
            mend="run that one to its end, or remove the file to begin anew",
        )
    return since


def _known(lines: list[bytes]) -> tuple[dict[str, list[int]], int]:
    """What was found right, and the bytes up to the first line that is not whole."""
    known, length = {}, len(lines[0])
    for line in lines[1:]:
        try:
            name, state = canonical.loads(line)
            known[name] = state
        except (ValueError, TypeError):
            break
        length += len(line)
    return known, length


def _state(status: os.stat_result) -> list[int]:
    times = [status.st_mtime_ns, status.st_ctime_ns]
    return [status.st_dev, status.st_ino, status.st_size, *times]


def _write(handle: int, data: bytes) -> None:
    """All of it or, where the disk is full, a beginning that the next run cuts off."""
    while data:
        data = data[os.write(handle, data) :]
