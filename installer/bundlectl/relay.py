"""Pass one request on to the server, and its answer back."""

import asyncio
import contextlib
from typing import Any

import h11

from bundlectl.frontrules import Refusal, to_client, to_server
from bundlectl.httppeer import Peer

_CONNECT = 10.0  # seconds for the server's own socket
_ANSWER = (h11.Response, h11.Data, h11.EndOfMessage)


async def refuse(client: Peer, refusal: Refusal, method: bytes = b"") -> None:
    """Answer in the server's place; `method` is the request's, as far as it is known."""
    if client.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        client.abort()
        return
    if not client.http.they_are_waiting_for_100_continue:
        await client.discard()
    body = refusal.body()
    await client.send(
        h11.Response(status_code=refusal.status, headers=refusal.headers(body)),
        h11.Data(data=b"" if method == b"HEAD" else body),
        h11.EndOfMessage(),
    )


async def relay(client: Peer, address: str, request: h11.Request, socket: str) -> Refusal | None:
    """Pass a request on, and its answer back; a refusal where there was no answer.

    `address` is the client's, `socket` the server's.
    """
    try:
        async with asyncio.timeout(_CONNECT):
            server = Peer(h11.CLIENT, *await asyncio.open_unix_connection(socket))
    except (OSError, TimeoutError):
        return Refusal(503, "the server does not answer", retry_after=5)
    try:
        await server.send(_onward(request, address))
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


def _onward(request: h11.Request, address: str) -> h11.Request:
    headers = to_server(request.headers, address)
    return h11.Request(method=request.method, target=request.target, headers=headers)


async def _upload(client: Peer, server: Peer) -> None:
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


async def _download(server: Peer, client: Peer) -> Refusal | None:
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
        status_code=event.status_code, reason=event.reason, headers=to_client(event.headers)
    )
