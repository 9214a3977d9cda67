"""The server's processes: start, stop, status, and nobody else's process ever touched.

A server is several processes in one session of its own. A record names its leader by pid and start
time, so that a pid that was given to another process is never signalled; the others are known by
their session, or by a variable in their environment when the leader is gone.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bundlectl import procfs
from bundlectl.environment import INSTANCE
from bundlectl.layout import Layout
from bundlectl.rotation import open_new, rotate
from manifests import synced
from manifests.errors import IntegrityError, ServerError, UsageError, from_oserror
from manifests.records import from_data, to_data

#: The one in service has one of these names, the next one gets the other.
SLOTS = ("server-1", "server-2")
KEEPER = "keeper"
SERVER_LOG = "server.log"
_LOGS_KEPT = 5
_POLL = 0.1  # seconds
_LOCK_PATIENCE = 10.0  # seconds that another start may take before ours gives up
_LAST_PATIENCE = 10.0  # seconds that the kernel gets after SIGKILL


@dataclass(frozen=True)
class Service:
    """What a server serves, kept for `status`."""

    host: str
    port: int
    model: str
    release: str
    folders: tuple[str, ...] = ()  # below the prefix: the model's, then its adapters'
    adapters: tuple[str, ...] = ()  # further names that requests may use as a model's
    sizing: tuple[str, ...] = ()  # what it was told about memory and why, a line each
    caches: tuple[str, ...] = ()  # whether carried compile caches are used

    @property
    def url(self) -> str:
        """Base of the server's addresses, for a client on the same machine."""
        # A wildcard address is one to listen on, not one to connect to.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Record:
    """The file state/run/NAME.json."""

    pid: int
    started: int  # clock ticks after boot, /proc/PID/stat
    boot: str  # a start time means nothing after a reboot
    service: Service


@dataclass(frozen=True)
class Status:
    """What `status` shows."""

    running: bool
    pid: int = 0
    uptime: int = 0  # seconds
    processes: int = 0
    memory: int = 0  # bytes, proportional set size of all processes
    service: Service | None = None


def in_service(layout: Layout) -> str:
    """The slot of the server that requests go to, or went to last."""
    with contextlib.suppress(OSError):
        slot = (layout.run / "in-service").read_text("ascii", "replace").strip()
        if slot in SLOTS:
            return slot
    return SLOTS[0]


def put_in_service(layout: Layout, slot: str) -> None:
    """Make a slot the one that `in_service` names."""
    synced.replace(layout.run / "in-service", slot.encode("ascii"), 0o600)


class Supervisor:
    """One named process of an installation with its children; by default the server in service."""

    def __init__(self, layout: Layout, name: str = "") -> None:
        self.name = name = name or in_service(layout)
        self._layout = layout
        self._file = layout.run / f"{name}.json"
        self._lock_file = layout.run / f"{name}.lock"
        self._child: subprocess.Popen[bytes] | None = None
        self._mark = f"{INSTANCE}={self._file}"
        self.log = layout.logs / (SERVER_LOG if name in SLOTS else f"{name}.log")

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        service: Service,
        output: Path | None = None,
    ) -> Record:
        """Start a process in the background, in a session of its own.

        It writes to `output`, a pipe that has a name, or to a new log. Raises UsageError where it
        runs already, ServerError where the program can't be executed.
        """
        with self._locked():
            record = self._record()
            if record and self._leader(record):
                raise UsageError(
                    f"the server runs already (process {record.pid}, {record.service.url})",
                    mend="run: bundlectl restart, or: bundlectl stop",
                )
            self._end(record, 0)  # what a killed leader, or a killed start, left behind
            marked = {**environment, INSTANCE: str(self._file)}
            self._child = self._spawn(command, marked, output)
            return self._enrol(self._child.pid, service)

    def enrol(self, service: Service) -> None:
        """Record this very process as the named one."""
        with self._locked():
            self._enrol(os.getpid(), service)

    def stop(self, patience: float = 30.0) -> bool:
        """End the server and all its processes; False where none ran.

        `patience` is how many seconds it gets to end by itself. Raises ServerError where a
        process does not even end by SIGKILL, UsageError where it belongs to another account.
        """
        with self._locked():
            found = self._end(self._record(), patience)
            self._file.unlink(missing_ok=True)
            return found

    def kill(self) -> None:
        """End the process that this object started and its session's group, asking no files."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()

    def status(self) -> Status:
        """How the server is; `service` also tells of one that has died."""
        record = self._record()
        if record is None:
            return Status(running=False)
        members = self._members(record)
        leader = self._leader(record)
        return Status(
            running=leader is not None,
            pid=record.pid if leader else 0,
            uptime=int(procfs.uptime(leader)) if leader else 0,
            processes=len(members),
            memory=sum(procfs.memory(member.pid) for member in members),
            service=record.service,
        )

    def alive(self) -> bool:
        """Whether the server's leading process lives."""
        if self._child is not None:  # asked without a file, which there may be none left for
            return self._child.poll() is None
        record = self._record()
        return record is not None and self._leader(record) is not None

    def exit_status(self) -> int | None:
        """Exit status of a server that this object started; None while it runs or if unknown."""
        return None if self._child is None else self._child.poll()

    def _spawn(
        self, command: Sequence[str], environment: Mapping[str, str], output: Path | None
    ) -> subprocess.Popen[bytes]:
        try:
            if output is None:
                rotate(self.log, _LOGS_KEPT)
                handle = open_new(self.log)
            else:
                # For reading too: a pipe that has a reader for ever never ends its writer.
                handle = os.open(output, os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise from_oserror(error, "opening the server's log") from error
        try:
            return subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=self._layout.run,
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise ServerError(
                f"{command[0]}: can't be started: {error.strerror}",
                mend="run: bundlectl audit, to see what is missing or altered",
            ) from None
        finally:
            os.close(handle)

    def _enrol(self, pid: int, service: Service) -> Record:
        # It can't be gone: a child that ended stays a zombie until we ask for its status.
        leader = procfs.read(pid)
        assert leader is not None
        record = Record(pid, leader.started, procfs.boot_id(), service)
        self._write(record)
        return record

    def _record(self) -> Record | None:
        try:
            return from_data(Record, json.loads(self._file.read_bytes()), str(self._file))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise from_oserror(error, "reading the server's record") from error
        except (ValueError, IntegrityError):
            return None  # the mark in their environment still finds the processes

    def _write(self, record: Record) -> None:
        try:
            synced.replace(self._file, json.dumps(to_data(record)).encode(), 0o600)
        except OSError as error:
            raise from_oserror(error, "writing the server's record") from error

    def _leader(self, record: Record) -> procfs.Process | None:
        leader = procfs.read(record.pid)
        same = leader and leader.started == record.started and record.boot == procfs.boot_id()
        return leader if leader and same and not leader.dead else None

    def _members(self, record: Record | None) -> list[procfs.Process]:
        """All living processes of the server, its leader first."""
        leader = self._leader(record) if record else None
        pid = leader.pid if leader else 0
        members = [
            process
            for process in procfs.everyone()
            if process.pid != os.getpid()
            and (
                (leader is not None and pid in (process.pid, process.session))
                or self._mark in procfs.environment(process.pid)
            )
        ]
        return sorted(members, key=lambda process: process.pid != pid)

    def _end(self, record: Record | None, patience: float) -> bool:
        members = self._members(record)
        found = bool(members)
        # The leader alone first: it ends its workers in order. A server whose engine never came up
        # ignores that, and its workers hang in their own handlers: hence the other two steps.
        for number, seconds, whom in (
            (signal.SIGTERM, patience * 2 / 3, slice(0, 1)),
            (signal.SIGTERM, patience / 3, slice(None)),
            (signal.SIGKILL, _LAST_PATIENCE, slice(None)),
        ):
            if not members:
                return found
            for process in members[whom]:
                _signal(process, number)
            members = self._wait(members, record, seconds)
        if members:
            names = ", ".join(str(process.pid) for process in members)
            raise ServerError(
                f"processes of the server do not end: {names}",
                why="they hang in the kernel, as a rule in a driver",
                mend="look at: dmesg; a reboot ends them for certain",
            )
        return found

    def _wait(
        self, known: list[procfs.Process], record: Record | None, seconds: float
    ) -> list[procfs.Process]:
        """What lives after so many seconds at most: those known before, and those that joined."""
        deadline = time.monotonic() + seconds
        while True:
            if self._child is not None:
                self._child.poll()  # a zombie of ours would count as a process for others
            left = [process for process in known if _lives(process)]
            pids = {process.pid for process in left}
            joined = [process for process in self._members(record) if process.pid not in pids]
            if not left + joined or time.monotonic() >= deadline:
                return left + joined
            time.sleep(_POLL)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_PATIENCE
        try:
            handle = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise from_oserror(error, "locking the server's state", self._lock_file) from error
        try:
            while not _try_lock(handle):
                if time.monotonic() >= deadline:
                    raise UsageError(
                        "another bundlectl is starting or stopping the server",
                        mend="wait for it, then run the same command again",
                    )
                time.sleep(_POLL)
            yield
        finally:
            os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(process: procfs.Process) -> bool:
    now = procfs.read(process.pid)
    return now is not None and now.started == process.started and not now.dead


def _signal(process: procfs.Process, number: signal.Signals) -> None:
    if not _lives(process):
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise UsageError(
            f"process {process.pid} of the server belongs to another account",
            mend="run the command as the account that started the server, or as root",
        ) from None


def describe(status: int) -> str:
    """An exit status as people read it."""
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
