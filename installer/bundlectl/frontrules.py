"""What the front lets through and what it passes on: rules alone, no sockets."""

import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

Headers = list[tuple[bytes, bytes]]

#: Headers that concern one connection and not the request: RFC 9110, section 7.6.1, and `expect`,
#: which the front answers itself.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer "
    b"upgrade expect".split()
)
#: What other machines may ask for; vLLM's API key guards /v1 and nothing else.
_API = b"/v1/"
_HEALTH = b"/health"
#: Not CONNECT, which asks for another protocol, and not TRACE.
_METHODS = (b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT")
_HOST = re.compile(rb"(?:\[[\w:.%~-]+\]|[\w.%~-]*)(?::\d*)?")
#: The Host that a server gets, whatever the client said. vLLM's key guards a path that Starlette
#: takes from a URL made of the client's Host, where "x/y?" hides the path that is really asked for.
_OUR_HOST = b"localhost"
_OUR_URL = re.compile(rb"https?://" + _OUR_HOST + rb"(?=/)")


@dataclass(frozen=True)
class Refusal:
    """An answer of the front itself."""

    status: int
    message: str
    retry_after: int = 0  # seconds; 0: no such header
    allow: tuple[bytes, ...] = ()  # the methods that are not refused

    def headers(self, body: bytes) -> Headers:
        """The headers of the answer."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        if self.retry_after:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.allow:
            headers.append((b"allow", b", ".join(self.allow)))
        return headers

    def body(self) -> bytes:
        """The error as clients of this interface expect it."""
        error = {"message": self.message, "type": "bundlectl_front", "code": self.status}
        return json.dumps({"error": error}).encode()


@dataclass(frozen=True)
class Rules:
    """Who may ask for what."""

    open_paths: tuple[str, ...] = ()  # further paths for other machines, exactly or up to a "/"

    def refusal(
        self, peer: str, method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> Refusal | None:
        """Why a request is not passed on; None where it is.

        `peer` is the client's IP address, `target` what stands in the request line.
        """
        if method not in _METHODS:
            return Refusal(405, "there is no such method", allow=_METHODS)
        every = list(headers)
        names = [name for name, _ in every]
        hosts = [value for name, value in every if name == b"host"]
        if len(hosts) > 1 or not all(map(_HOST.fullmatch, hosts)):
            return Refusal(400, "a request has one Host, which is a name and a port")
        if b"transfer-encoding" in names and b"content-length" in names:
            # Two readers could see the end of such a request at two places (RFC 9112, section 6.1).
            return Refusal(400, "a request has one length")
        if not target.startswith(b"/"):
            return Refusal(400, "the target must be a path")
        if is_loopback(peer) or self._is_open(target.partition(b"?")[0]):
            return None
        return Refusal(403, "this path is for the machine itself alone")

    def _is_open(self, path: bytes) -> bool:
        plain = unquote_to_bytes(path)
        # A path with these means one thing to us and may mean another to the server.
        if b"\\" in plain or {b"", b".", b".."} & set(plain.split(b"/")[1:-1]):
            return False
        if plain.startswith(_API) or plain == _HEALTH:
            return not plain.endswith((b"/.", b"/.."))
        opened = (item.encode() for item in self.open_paths)
        return any(plain == item or plain.startswith(item.rstrip(b"/") + b"/") for item in opened)


def is_held(target: bytes) -> bool:
    """Whether a request waits for the next server while none serves."""
    return target.startswith(_API)


def is_loopback(peer: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1
    return (mapped or address).is_loopback


def to_server(headers: Iterable[tuple[bytes, bytes]], peer: str) -> Headers:
    """The headers of a request as the server gets them.

    Where a request came from is what a proxy on this machine says, and nobody else's to say.
    """
    believed = is_loopback(peer)
    kept = [
        (name, value)
        for name, value in _passed_on(headers)
        if name != b"host" and (believed or not _tells_of_origin(name))
    ]
    return [(b"host", _OUR_HOST), *kept, (b"connection", b"close")]


def _tells_of_origin(name: bytes) -> bool:
    return name == b"forwarded" or name.startswith(b"x-forwarded-")


def to_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer as the client gets them: without our name of the server."""
    return [
        (name, _OUR_URL.sub(b"", value) if name == b"location" else value)
        for name, value in _passed_on(headers)
    ]


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of a message without those that concern one connection."""
    every = list(headers)
    named = {
        name.strip().lower()
        for key, value in every
        if key == b"connection"
        for name in value.split(b",")
    }
    # A message's framing is not the sender's to take away.
    dropped = (named | _HOP_BY_HOP) - {b"content-length", b"transfer-encoding", b"host"}
    return [(key, value) for key, value in every if key not in dropped]
