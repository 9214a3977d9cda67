"""The front: holds the public port and relays each request to the server in service.

HTTP/1.1 by h11, which parses what came in and writes anew what goes on, so that client and server
can't read one request as two. Bodies are passed on as they come, in both directions, and never
kept; neither they nor headers are ever logged.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Any

import h11

from bundlectl.frontrules import Refusal, Rules, is_held, passed_on
from bundlectl.route import Route, Unserved
from manifests.errors import TargetError

_CHUNK = 64 << 10  # bytes of one read
_LONGEST_HEAD = 64 << 10  # bytes of a request line and its headers, as uvicorn takes them
_IDLE = 75.0  # seconds that a connection may be kept without a request, or with half a head
_BACKLOG = 1024  # connections that wait to be accepted
_CONNECT = 10.0  # seconds for the server's own socket
_MOST_DISCARDED = 1 << 20  # bytes of a refused request's body that are read for politeness
_DISCARD = 5.0  # seconds for that
_ANSWER = (h11.Response, h11.Data, h11.EndOfMessage)


@dataclass(frozen=True)
class Address:
    """Where the front listens."""

    host: str
    port: int


class _Peer:
    """One end of a relay: a connection and its HTTP state."""

    def __init__(
        self, role: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_LONGEST_HEAD)
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Any:
        """The next event; raises h11.RemoteProtocolError, OSError."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self._reader.read(_CHUNK))
        return event

    async def receive_all(self) -> list[Any]:
        """The next event, and those that are there already: a busy stream has many in one read."""
        events = [await self.receive()]
        with contextlib.suppress(h11.RemoteProtocolError):  # it is raised again the next time
            while isinstance(events[-1], h11.Response | h11.Data):
                if (event := self.http.next_event()) is h11.NEED_DATA:
                    break
                events.append(event)
        return events

    async def send(self, *events: Any) -> None:
        """Send events; waits while the other end does not read."""
        data = b"".join(self.http.send(event) or b"" for event in events)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def gone(self) -> None:
        """Wait until the other end leaves; what it sends meanwhile is the next request."""
        while data := await self._reader.read(_CHUNK):
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
                while count < _MOST_DISCARDED and (data := await self._reader.read(_CHUNK)):
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


class Front:
    """The listener, and its connections."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.address: Address | None = None
        self.rules = Rules()
        self.hold_timeout = 0.0  # seconds

    async def listen(self, address: Address) -> None:
        """Listen there, and no longer where it did before.

        Raises TargetError where that is not possible; what was before is restored then.
        """
        if address == self.address:
            return
        before, old = self.address, self._server
        if old is not None:
            old.close()  # a port on one address is in the way of that port on all of them
        try:
            self._server = await self._bound(address)
        except OSError as error:
            if before is not None:
                self._server = await self._bound(before)
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise TargetError(
                f"{address.host}:{address.port}: {reason}",
                mend="stop what listens there, or set another port in etc/serve.toml",
            ) from None
        self.address = address

    async def _bound(self, address: Address) -> asyncio.Server:
        host = "127.0.0.1" if address.host == "localhost" else address.host
        return await asyncio.start_server(self._accept, host, address.port, backlog=_BACKLOG)

    async def close(self) -> None:
        """Listen no more, and end every connection."""
        if self._server is not None:
            self._server.close()
        self._server = self.address = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        client = _Peer(h11.SERVER, reader, writer)
        try:
            peer, *_ = writer.get_extra_info("peername") or ("",)  # none once the client has left
            while await self._exchange(client, peer):
                client.http.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # the client's own doing
        except asyncio.CancelledError:
            client.abort()
        finally:
            self._connections.discard(task)
            await client.close()

    async def _exchange(self, client: _Peer, peer: str) -> bool:
        """One request and its answer; whether another may follow on the connection."""
        try:
            async with asyncio.timeout(_IDLE):
                request = await client.receive()
        except h11.RemoteProtocolError as error:
            await _refuse(client, Refusal(error.error_status_hint, "this is not HTTP/1.1"))
            await client.linger()
            return False
        if not isinstance(request, h11.Request):
            return False
        refusal = self.rules.refusal(peer, request.target, request.headers)
        if refusal is None:
            refusal = await self._route_one(client, request)
        if refusal is not None:
            await _refuse(client, refusal)
        elif client.http.our_state is h11.DONE:
            await client.discard()  # the server may have answered before the end of the request
        return (client.http.our_state, client.http.their_state) == (h11.DONE, h11.DONE)

    async def _route_one(self, client: _Peer, request: h11.Request) -> Refusal | None:
        try:
            patience = self.hold_timeout if is_held(request.target) else 0.0
            target = await self._route.choose(patience)
        except Unserved as unserved:
            return unserved.refusal
        with target.use() as socket:
            return await _relay(client, request, socket)


async def _refuse(client: _Peer, refusal: Refusal) -> None:
    """Answer in the server's place."""
    if client.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        client.abort()
        return
    if not client.http.they_are_waiting_for_100_continue:
        await client.discard()
    body = refusal.body()
    await client.send(
        h11.Response(status_code=refusal.status, headers=refusal.headers(body)),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )


async def _relay(client: _Peer, request: h11.Request, socket: str) -> Refusal | None:
    """Pass one request on, and its answer back; a refusal where there was no answer."""
    try:
        async with asyncio.timeout(_CONNECT):
            server = _Peer(h11.CLIENT, *await asyncio.open_unix_connection(socket))
    except (OSError, TimeoutError):
        return Refusal(503, "the server does not answer", retry_after=5)
    try:
        await server.send(_onward(request))
        up = asyncio.create_task(_upload(client, server))
        down = asyncio.create_task(_download(server, client))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            # A client that has left wants no answer: the server sees its connection close.
            return await down if down.done() else None
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
    except OSError:
        return Refusal(502, "the server broke off")
    finally:
        server.abort()


def _onward(request: h11.Request) -> h11.Request:
    headers = [*passed_on(request.headers), (b"connection", b"close")]
    if not any(name == b"host" for name, _ in headers):  # HTTP/1.0 has none, HTTP/1.1 must
        headers.append((b"host", b"localhost"))
    return h11.Request(method=request.method, target=request.target, headers=headers)


async def _upload(client: _Peer, server: _Peer) -> None:
    """Pass a request's body on; ends when the client has left."""
    if client.http.they_are_waiting_for_100_continue:
        await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    event = None
    while not isinstance(event, h11.EndOfMessage):
        event = await client.receive()
        if isinstance(event, h11.ConnectionClosed):
            return
        if isinstance(event, h11.EndOfMessage):
            event = h11.EndOfMessage()  # without trailers, which concern the connection
        # A server that reads no further has answered before the end: that answer is what counts.
        with contextlib.suppress(OSError):
            await server.send(event)
    await client.gone()


async def _download(server: _Peer, client: _Peer) -> Refusal | None:
    """Pass an answer back; a refusal where the server broke off before one."""
    while True:
        try:
            events = await server.receive_all()
        except (OSError, h11.RemoteProtocolError):
            events = [h11.ConnectionClosed()]
        whole = [_back(one) for one in events if isinstance(one, _ANSWER)]
        await client.send(*whole)
        if isinstance(events[-1], h11.EndOfMessage):
            return None
        if isinstance(events[-1], h11.ConnectionClosed):
            if client.http.our_state is not h11.SEND_BODY:
                return Refusal(502, "the server broke off before it answered")
            client.abort()
            return None


def _back(event: Any) -> Any:
    if not isinstance(event, h11.Response):
        return event
    return h11.Response(
        status_code=event.status_code, reason=event.reason, headers=passed_on(event.headers)
    )
