"""A server as its keeper sees it: started, listened to, found ill, started again, ended."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bundlectl import smoke
from bundlectl.api import Client, Refused, Unreachable, at_socket
from bundlectl.layout import Layout
from bundlectl.process import Service, Supervisor, describe
from bundlectl.rotation import RotatingLog
from bundlectl.route import Target
from bundlectl.serverlog import Words
from bundlectl.sockets import socket_path
from manifests.errors import FilesystemError

Sink = Callable[[bytes], object]

_CHUNK = 64 << 10  # bytes
#: Bytes that a pipe holds while nobody reads: the most that an account may ask for (pipe(7)).
_PIPE_SIZE = 1 << 20
_LOOK = 0.5  # seconds between two looks at the process
_ASK = 5.0  # seconds between two questions about its health, and for the answer
_GRACE = 5.0  # seconds in which a server whose engine is dead may end by itself
_CONFIRM = 30.0  # seconds in which a server that is only busy answers


@dataclass(frozen=True)
class Launch:
    """What a server is started with. It holds the API key, so it is never written to a file."""

    command: tuple[str, ...]
    environment: dict[str, str]
    service: Service
    start_timeout: int  # seconds
    stop_timeout: int  # seconds


class Server:
    """One server process and what it says."""

    def __init__(
        self, layout: Layout, slot: str, launch: Launch, log: RotatingLog, sink: Sink
    ) -> None:
        self.slot = slot
        self.launch = launch
        self.log = log
        self.target = Target(socket_path(layout, slot))
        self._supervisor = Supervisor(layout, slot)
        self._pipe = layout.run / f"{slot}.pipe"
        self._sink = sink
        self._reading = -1
        self._words = Words()
        self._one_at_a_time = asyncio.Lock()

    @property
    def name(self) -> str:
        """What it serves, for people."""
        return f"{self.launch.service.model} of {self.launch.service.release}"

    async def start(self) -> None:
        """Start the process.

        Raises ServerError where it can't be executed, FilesystemError.
        """
        await self._in_turn(self._start)

    async def _start(self) -> None:
        Path(self.target.socket).unlink(missing_ok=True)  # vLLM does not take a name that is taken
        self._words = Words()
        self.log.renew()  # words of an earlier death must not be taken for this start's
        self._open_pipe()
        launch = self.launch
        await asyncio.to_thread(
            self._supervisor.start, launch.command, launch.environment, launch.service, self._pipe
        )

    async def prove(self) -> None:
        """Wait until it has answered a completion.

        Raises ServerError.
        """
        await asyncio.to_thread(
            smoke.wait_until_ready,
            at_socket(self.target.socket),
            self._key,
            self.launch.service.model,
            self.alive,
            self.log.path,
            self.launch.start_timeout,
        )

    async def illness(self, health_timeout: float) -> str:
        """Wait until it is dead or hangs; gives the reason.

        `health_timeout` in seconds; 0: it may be silent for ever.
        """
        healthy = asked = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK)
            if self._words.found and await self._engine_is_dead():
                return "its engine died"
            if not self.alive():
                return f"it ended by itself, {self.ending()}"
            if time.monotonic() - asked < _ASK:
                continue
            asked = time.monotonic()
            if await asyncio.to_thread(self._is_healthy, _ASK):
                healthy = time.monotonic()
            elif health_timeout and time.monotonic() - healthy >= health_timeout:
                return f"it did not answer /health for {health_timeout:.0f} s"

    async def _engine_is_dead(self) -> bool:
        """Whether the server bears out the words in its log, which may be anybody's.

        A path is logged, and so may a prompt be. vLLM's /health answers 503 once its engine is dead
        (vllm/entrypoints/serve/instrumentator/health.py), unless its process has ended.
        """
        self._words = Words()
        await asyncio.sleep(_GRACE)
        return not await asyncio.to_thread(self._is_healthy, _CONFIRM)

    def alive(self) -> bool:
        """Whether its process lives; everything that a dead one said is in the log."""
        if self._supervisor.alive():
            return True
        self._read()
        return False

    def ending(self) -> str:
        """How it ended."""
        status = self._supervisor.exit_status()
        return "in an unknown way" if status is None else describe(status)

    async def stop(self, patience: float) -> None:
        """End all its processes; `patience` in seconds.

        Raises ServerError where one does not end.
        """
        await self._in_turn(partial(self._stop, patience))

    async def _stop(self, patience: float) -> None:
        try:
            await asyncio.to_thread(self._supervisor.stop, patience)
        except FilesystemError:  # its folders are gone: what can still be ended is ended
            self._supervisor.kill()
        self._close_pipe()
        Path(self.target.socket).unlink(missing_ok=True)

    async def _in_turn(self, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step once those before it are over: who asked may leave, a thread does not."""

        async def whole() -> None:
            async with self._one_at_a_time:
                await step()

        await asyncio.shield(asyncio.create_task(whole()))

    @property
    def _key(self) -> str:
        return self.launch.environment.get("VLLM_API_KEY", "")

    def _is_healthy(self, patience: float) -> bool:
        try:
            Client(at_socket(self.target.socket)).get("/health", patience)
        except (Unreachable, Refused):
            return False
        return True

    def _open_pipe(self) -> None:
        self._close_pipe()
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe, 0o600)
        # For writing too: otherwise a pipe whose last writer has left reports its end for ever.
        self._reading = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(OSError):  # the account's pipes may have used up their share
            fcntl.fcntl(self._reading, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        asyncio.get_running_loop().add_reader(self._reading, self._read_once)

    def _close_pipe(self) -> None:
        if self._reading < 0:
            return
        self._read()
        asyncio.get_running_loop().remove_reader(self._reading)
        os.close(self._reading)
        self._reading = -1

    def _read(self) -> None:
        while self._read_once():
            pass

    def _read_once(self) -> bool:
        try:
            data = os.read(self._reading, _CHUNK)
        except OSError:  # nothing at the moment
            return False
        self._words.feed(data)
        self.log.write(data)
        with contextlib.suppress(OSError, ValueError):  # whoever listens may have left
            self._sink(data)
        return bool(data)
