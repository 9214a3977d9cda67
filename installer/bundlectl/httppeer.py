"""One end of a relay: a connection and its HTTP/1.1 state, kept by h11."""

import asyncio
import contextlib
from typing import Any

import h11

CHUNK = 64 << 10  # bytes of one read
_LONGEST_HEAD = 64 << 10  # bytes of a request line and its headers, as uvicorn takes them
_MOST_DISCARDED = 1 << 20  # bytes of a refused request's body that are read for politeness
_DISCARD = 5.0  # seconds for that


class Peer:
    """A client, or the server."""

    def __init__(
        self, role: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_LONGEST_HEAD)
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Any:
        """The next event; raises h11.RemoteProtocolError, OSError."""
        while (event := self._next()) is h11.NEED_DATA:
            self.http.receive_data(await self._reader.read(CHUNK))
        return event

    async def receive_all(self) -> list[Any]:
        """The next event, and those that are there already: a busy stream has many in one read."""
        events = [await self.receive()]
        with contextlib.suppress(h11.RemoteProtocolError):  # it is raised again the next time
            while isinstance(events[-1], h11.Response | h11.Data):
                if (event := self._next()) is h11.NEED_DATA:
                    break
                events.append(event)
        return events

    def _next(self) -> Any:
        event = self.http.next_event()
        # h11 pauses where another protocol may begin. Here none does: nothing more comes.
        return h11.ConnectionClosed() if event is h11.PAUSED else event

    async def send(self, *events: Any) -> None:
        """Send events; waits while the other end does not read."""
        data = b"".join(self.http.send(event) or b"" for event in events)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def gone(self) -> None:
        """Wait until the other end leaves; what it sends meanwhile is the next request."""
        while data := await self._reader.read(CHUNK):
            self.http.receive_data(data)
            if len(self.http.trailing_data[0]) > _LONGEST_HEAD:
                await asyncio.Event().wait()  # enough; it is read when its turn has come

    async def discard(self) -> None:
        """Read the rest of a request: a connection closed over it may lose our answer."""
        count = 0
        with contextlib.suppress(TimeoutError, h11.RemoteProtocolError):
            async with asyncio.timeout(_DISCARD):
                while self.http.their_state is h11.SEND_BODY and count < _MOST_DISCARDED:
                    event = await self.receive()
                    count += len(getattr(event, "data", b""))

    async def linger(self) -> None:
        """Say that nothing follows, and read what still comes, for the same reason."""
        count = 0
        with contextlib.suppress(TimeoutError, OSError):
            self._writer.write_eof()
            async with asyncio.timeout(_DISCARD):
                while count < _MOST_DISCARDED and (data := await self._reader.read(CHUNK)):
                    count += len(data)

    def abort(self) -> None:
        """Cut the connection, so that nobody takes half an answer for a whole one."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection once everything is sent, or soon."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_DISCARD):
                await self._writer.wait_closed()
        self.abort()
