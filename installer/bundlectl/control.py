"""How a command line and the keeper talk: JSON lines over a Unix socket of the account's own.

A connection is a transaction: what it began and has not finished when it closes is undone, so a
command line that is killed leaves the server that served before.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from manifests.errors import (
    BundleError,
    FilesystemError,
    IntegrityError,
    ServerError,
    TargetError,
    UsageError,
    from_oserror,
)

#: Of a keeper that is already running and a command line that may be newer.
PROTOCOL = 1
SOCKET = "keeper"
_SOON = 10.0  # seconds
_LONGEST_LINE = 4 << 20  # bytes; a server's command and environment
_KINDS = {
    kind.exit_code: kind
    for kind in (FilesystemError, IntegrityError, ServerError, TargetError, UsageError)
}

Answer = dict[str, Any]
#: Gets the session, which is nothing but an identity, and the request.
Handler = Callable[[object, dict[str, Any]], Awaitable[Answer]]


class Lost(Exception):
    """The keeper has closed the connection, or there is none to talk to."""


class Link:
    """A command line's end of the conversation."""

    def __init__(self, path: str) -> None:
        """Raises Lost where no keeper listens."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Lost(str(error)) from None
        self._lines = self._socket.makefile("rb")

    def status(self) -> Answer:
        """What the keeper says of itself.

        Raises Lost, also where it does not answer soon.
        """
        return self.ask("status", patience=_SOON)

    def ask(self, do: str, patience: float | None = None, **details: Any) -> Answer:
        """Ask for something and wait until it is done, or so many seconds.

        Raises what the keeper raises, Lost.
        """
        self._socket.settimeout(patience)
        try:
            self._socket.sendall(json.dumps({"do": do, **details}).encode() + b"\n")
            line = self._lines.readline()
        except OSError as error:
            raise Lost(str(error)) from None
        if not line.endswith(b"\n"):
            raise Lost("the keeper has ended")
        answer: Answer = json.loads(line)
        if "error" in answer:
            kind = _KINDS.get(answer["exit_code"], ServerError)
            raise kind(
                answer["error"],
                why=answer["why"],
                mend=answer["mend"],
                findings=answer["findings"],
            )
        return answer

    def close(self) -> None:
        """End the conversation."""
        self._lines.close()
        self._socket.close()


class Listener:
    """The keeper's end: one task for each conversation."""

    def __init__(self, handler: Handler, gone: Callable[[object], Awaitable[None]]) -> None:
        self._handler = handler
        self._gone = gone
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a conversation is open."""
        return bool(self._tasks)

    async def listen(self, path: str) -> None:
        """Listen there."""
        self._server = await asyncio.start_unix_server(self._converse, path, limit=_LONGEST_LINE)

    async def close(self, patience: float) -> None:
        """Listen no more; let answers under way be read."""
        if self._server is not None:
            self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience)
        for task in self._tasks:
            task.cancel()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        session = object()
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(session, line)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # the command line has left, or we do
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(BundleError, OSError, asyncio.CancelledError):
                await self._gone(session)

    async def _answer(self, session: object, line: bytes) -> Answer:
        try:
            return await self._handler(session, json.loads(line))
        except BundleError as error:
            return error.as_record()
        except OSError as error:
            return from_oserror(error, "keeping the server").as_record()
