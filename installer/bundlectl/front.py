"""The front: holds the public port and relays each request to the server in service.

HTTP/1.1 by h11, which parses what came in and writes anew what goes on, so that client and server
can't read one request as two. Bodies are passed on as they come, in both directions, and never
kept; neither they nor headers are ever logged.
"""

import asyncio
import errno
import os
from dataclasses import dataclass
from socket import gaierror

import h11

from bundlectl.crowd import Crowd
from bundlectl.frontrules import Refusal, Rules, is_held
from bundlectl.httppeer import Peer
from bundlectl.relay import refuse, relay
from bundlectl.route import Route, Unserved
from manifests.errors import TargetError

_IDLE = 75.0  # seconds that a connection may be kept without a request, or with half a head
_BACKLOG = 1024  # connections that wait to be accepted
#: Of those, how many asyncio accepts before it lets us look at the first: it takes its backlog at
#: once, and files would run out before anybody counts.
_AT_ONCE = 4
_FULL = Refusal(503, "there are too many connections", retry_after=5)


@dataclass(frozen=True)
class Address:
    """Where the front listens."""

    host: str
    port: int


class Front:
    """The listener, and its connections."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._server: asyncio.Server | None = None
        self._reserved: dict[Address, asyncio.Server] = {}
        self.crowd = Crowd()
        self.address: Address | None = None
        self.rules = Rules()
        self.hold_timeout = 0.0  # seconds

    async def reserve(self, address: Address) -> None:
        """Listen there too, until `listen` moves there or `release` gives it up.

        A port on one address is in the way of that port on all of them: then `listen` has to see.
        Raises TargetError where it is not possible.
        """
        if address == self.address or address in self._reserved:
            return
        try:
            self._reserved[address] = await self._bound(address)
        except OSError as error:
            ours = self.address is not None and self.address.port == address.port
            if not (ours and error.errno == errno.EADDRINUSE):
                raise _unbound(address, error) from None

    def release(self) -> None:
        """Listen in the one place alone."""
        while self._reserved:
            self._reserved.popitem()[1].close()

    async def listen(self, address: Address) -> None:
        """Listen there, and no longer where it did before.

        Raises TargetError where that is not possible; what was before is restored then.
        """
        if address == self.address:
            return
        before, old = self.address, self._server
        if old is not None:
            old.close()
        try:
            self._server = self._reserved.pop(address, None) or await self._bound(address)
        except OSError as error:
            if before is not None:
                self._server = await self._bound(before)
            raise _unbound(address, error) from None
        self.address = address

    async def _bound(self, address: Address) -> asyncio.Server:
        host = "127.0.0.1" if address.host == "localhost" else address.host
        server = await asyncio.start_server(self._accept, host, address.port, backlog=_AT_ONCE)
        for listening in server.sockets:
            with listening.dup() as twin:
                twin.listen(_BACKLOG)
        return server

    async def close(self) -> None:
        """Listen no more, and end every connection."""
        self.release()
        if self._server is not None:
            self._server.close()
        self._server = self.address = None
        await self.crowd.disperse()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(h11.SERVER, reader, writer)
        try:
            if not self.crowd.join():
                await refuse(client, _FULL)
                return
            peer, *_ = writer.get_extra_info("peername") or ("",)  # none once the client has left
            while await self._exchange(client, peer):
                client.http.start_next_cycle()
        except (TimeoutError, asyncio.CancelledError):
            client.abort()
        except (OSError, h11.ProtocolError):
            pass  # the client's own doing
        finally:
            await client.close()

    async def _exchange(self, client: Peer, peer: str) -> bool:
        """One request and its answer; whether another may follow on the connection."""
        try:
            async with self.crowd.idle(_IDLE) as place:
                request = await client.receive()
        except h11.RemoteProtocolError as error:
            await refuse(client, Refusal(error.error_status_hint, "this is not HTTP/1.1"))
            await client.linger()
            return False
        if not isinstance(request, h11.Request):
            return False
        if place.taken:
            await refuse(client, _FULL, request.method)
            return False
        refusal = self.rules.refusal(peer, request.method, request.target, request.headers)
        if refusal is None:
            refusal = await self._route_one(client, peer, request)
        if refusal is not None:
            await refuse(client, refusal, request.method)
        elif client.http.our_state is h11.DONE:
            await client.discard()  # the server may have answered before the end of the request
        return (client.http.our_state, client.http.their_state) == (h11.DONE, h11.DONE)

    async def _route_one(self, client: Peer, peer: str, request: h11.Request) -> Refusal | None:
        try:
            patience = self.hold_timeout if is_held(request.target) else 0.0
            target = await self._route.choose(patience)
        except Unserved as unserved:
            return unserved.refusal
        with target.use() as socket:
            return await relay(client, peer, request, socket)


def _unbound(address: Address, error: OSError) -> TargetError:
    named = isinstance(error, gaierror)  # its numbers are not those of the system
    reason = os.strerror(error.errno) if error.errno and not named else error.strerror or str(error)
    return TargetError(
        f"{address.host}:{address.port}: {reason}",
        mend="stop what listens there, or set another port in etc/serve.toml",
    )
