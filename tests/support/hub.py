"""A Hub on the loopback: the real protocol, with faults on demand.

Folders below a root are repositories (ROOT/ORG/NAME/…), each at one commit. What the real client
asks is answered as the real Hub answers it; a fault, set by file name while it runs, breaks the
answer for that file in one way.
"""

import hashlib
import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

#: What can go wrong with a file. A number in brackets is the times it happens, all if none.
FAULTS = {
    "flip": "one byte of the body is wrong",
    "short": "the body ends after a third, the connection is closed",
    "error500": "the server fails",
    "busy": "429 with Retry-After: 0",
    "no-range": "the whole file is sent, whatever was asked for",
    "wrong-range": "another range than asked for is sent",
    "stall": "the body stops in the middle, the connection stays open",
    "html": "a login page with status 200",
    "html-unknown-length": "a login page with status 200 and without Content-Length",
    "bad-digest": "the listing publishes another digest",
    "redirect": "302 to another host, which must not be given the token",
    "gated": "403 GatedRepo",
    "unauthorised": "401 GatedRepo",
    "gone": "404 EntryNotFound",
    "long": "more bytes than published, without Content-Length",
    "wrong-length": "Content-Length announces more than is published and sent",
    "replaced": "other bytes of the same length",
    "slow": "the body comes in small pieces, with a pause after each",
}
#: How a slow body comes; PAUSE in seconds.
PIECES, PAUSE = 8, 0.1
LOGIN_PAGE = b"<!DOCTYPE html><html><body>Please log in to the network.</body></html>"
_LFS_SUFFIXES = (".safetensors", ".bin")


@dataclass
class Fault:
    """A fault that happens `times` times."""

    kind: str
    times: float = float("inf")
    then: "Fault | None" = None


@dataclass(frozen=True)
class Stored:
    """A file as the Hub knows it."""

    path: Path
    size: int
    oid: str  # git blob id of the file, or of its LFS pointer
    sha256: str = ""  # where LFS keeps it
    pointer_size: int = 0


def git_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def stored(path: Path) -> Stored:
    status = path.stat()
    return _stored(path, status.st_mtime_ns, status.st_size)


@cache
def _stored(path: Path, _time: int, _size: int) -> Stored:
    data = path.read_bytes()
    if path.suffix not in _LFS_SUFFIXES:
        return Stored(path, len(data), git_blob(data))
    sha256 = hashlib.sha256(data).hexdigest()
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n"
    ).encode()
    return Stored(path, len(data), git_blob(pointer), sha256, len(pointer))


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    path: str
    range: str
    token: bool
    host: str


@dataclass
class Hub:
    """A running Hub; use it as a context manager."""

    root: Path
    faults: dict[str, Fault] = field(default_factory=dict)  # by file name; "api" for the listing
    gated: bool = False
    digests: bool = True  # published
    xet: bool = False  # weights are kept in Xet storage, and clients that speak it are told so
    renamed: dict[str, str] = field(default_factory=dict)  # old name → new one
    requests: list[Request] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)  # bytes of bodies, by file name

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.release = threading.Event()  # ends every stalled body
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        # Another name of the loopback is another host to a client.
        self._cdn = _Server(("127.0.0.1", 0), _Handler)
        self._cdn.hub = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.cdn = f"http://localhost:{self._cdn.server_address[1]}"

    def __enter__(self) -> Self:
        for server in (self._server, self._cdn):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        for server in (self._server, self._cdn):
            server.shutdown()
            server.server_close()

    def fault(self, name: str, kind: str, times: float = float("inf")) -> None:
        assert kind in FAULTS
        self.faults[name] = Fault(kind, times)

    def sequence(self, name: str, first: str, then: str) -> None:
        """One fault once, and from then on another."""
        assert {first, then} <= set(FAULTS)
        self.faults[name] = Fault(first, 1, Fault(then))

    def take(self, name: str, *kinds: str) -> str:
        """The fault that strikes a file now, if it is one of `kinds`."""
        with self.lock:
            fault = self.faults.get(name)
            if fault is not None and fault.times <= 0 and fault.then is not None:
                fault = self.faults[name] = fault.then
            if fault is None or fault.kind not in kinds or fault.times <= 0:
                return ""
            fault.times -= 1
            return fault.kind

    def repositories(self) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.glob("*/*"))

    def files(self, repository: str) -> dict[str, Stored]:
        folder = self.root / repository
        return {
            path.relative_to(folder).as_posix(): stored(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def commit(self, repository: str) -> str:
        listing = [(name, file.oid) for name, file in self.files(repository).items()]
        return hashlib.sha1(json.dumps(listing).encode()).hexdigest()

    def asked_for(self, name: str) -> list[Request]:
        """The requests for a file's bytes."""
        return [r for r in self.requests if r.method == "GET" and r.path.endswith("/" + name)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in these tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def _route(self) -> None:
        hub, url = self.server.hub, urlsplit(self.path)
        hub.requests.append(
            Request(
                self.command,
                unquote(url.path),
                self.headers.get("Range", ""),
                "Authorization" in self.headers,
                self.headers.get("Host", ""),
            )
        )
        path, query = unquote(url.path), parse_qs(url.query)
        for old, new in hub.renamed.items():
            if f"/{old}/" in f"{path}/":
                # As the real one: a path on the same host, the query kept.
                place = quote(path.replace(old, new, 1)) + (f"?{url.query}" if url.query else "")
                return self._send(307, b"", {"Location": place})
        if path == "/api/models":
            return self._search(query)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            return self._api(found[1], found[2] or "", found[3] or "main", query)
        if found := re.fullmatch(r"/(?:cdn/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(found[1], found[2], found[3], cdn=path.startswith("/cdn/"))
        return self._error(404, "", "no such page")

    def _search(self, query: dict[str, list[str]]) -> None:
        search = query.get("search", [""])[0].lower()
        author = query.get("author", [""])[0]
        names = [
            name
            for name in self.server.hub.repositories()
            if search in name.lower() and name.startswith(author)
        ]
        self._json([{"id": name, "modelId": name, "tags": []} for name in names])

    def _api(self, repository: str, what: str, revision: str, query: dict[str, Any]) -> None:
        hub = self.server.hub
        if kind := hub.take("api", "html", "error500", "gated", "unauthorised"):
            return self._broken(kind)
        if repository not in hub.repositories():
            # The real Hub does not tell strangers whether a private one exists.
            return self._error(401, "RepoNotFound", "Repository not found")
        commit = hub.commit(repository)
        if revision not in ("main", commit):
            return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = hub.files(repository)
        if what == "tree":
            return self._json([self._entry(name, file) for name, file in files.items()])
        return self._json(
            {
                "_id": "0",
                "id": repository,
                "modelId": repository,
                "sha": commit,
                "private": False,
                "gated": "manual" if hub.gated else False,
                "disabled": False,
                "tags": ["license:apache-2.0"],
                "siblings": [
                    self._sibling(name, file, blobs="blobs" in query)
                    for name, file in files.items()
                ],
            }
        )

    def _sha256(self, name: str, file: Stored) -> str:
        return "0" * 64 if self.server.hub.take(name, "bad-digest") else file.sha256

    def _sibling(self, name: str, file: Stored, *, blobs: bool) -> dict[str, Any]:
        if not blobs:
            return {"rfilename": name}
        lfs = {
            "sha256": self._sha256(name, file),
            "size": file.size,
            "pointerSize": file.pointer_size,
        }
        oid = "0" * 40 if not file.sha256 and self.server.hub.take(name, "bad-digest") else file.oid
        entry = {"rfilename": name, "size": file.size, "blobId": oid}
        if not self.server.hub.digests:
            return {"rfilename": name, "size": file.size}
        return entry | ({"lfs": lfs} if file.sha256 else {})

    def _entry(self, name: str, file: Stored) -> dict[str, Any]:
        lfs = {"oid": self._sha256(name, file), "size": file.size, "pointerSize": file.pointer_size}
        entry = {"type": "file", "path": name, "size": file.size, "oid": file.oid}
        return entry | ({"lfs": lfs} if file.sha256 else {})

    def _resolve(self, repository: str, revision: str, name: str, *, cdn: bool) -> None:
        hub = self.server.hub
        if repository not in hub.repositories():
            return self._error(401, "RepoNotFound", "Repository not found")
        file = hub.files(repository).get(name)
        if file is None or hub.take(name, "gone"):
            return self._error(404, "EntryNotFound", "Entry not found")
        if revision not in ("main", hub.commit(repository)):
            return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        broken = ("error500", "busy", "html", "html-unknown-length", "gated", "unauthorised")
        if kind := hub.take(name, *broken):
            return self._broken(kind)
        etag = file.sha256 or file.oid
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": hub.commit(repository)}
        if file.sha256:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(file.size)}
        if file.sha256 and hub.xet and not cdn:
            token = f"{hub.endpoint}/api/models/{repository}/xet-read-token/{revision}"
            headers |= {
                "X-Xet-Hash": hashlib.sha256(etag.encode()).hexdigest(),
                "Link": f'<{token}>; rel="xet-auth", <{hub.cdn}/xet>; '
                'rel="xet-reconstruction-info"',
                "Location": f"{hub.cdn}/cdn{quote(urlsplit(self.path).path)}",
            }
            return self._send(302, b"", headers)
        if not cdn and hub.take(name, "redirect"):
            headers["Location"] = f"{hub.cdn}/cdn{quote(urlsplit(self.path).path)}"
            return self._send(302, b"", headers)
        return self._body(file, name, headers)

    def _body(self, file: Stored, name: str, headers: dict[str, str]) -> None:
        hub, data, status = self.server.hub, bytearray(file.path.read_bytes()), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin = 0
        if asked and not hub.take(name, "no-range"):
            begin = int(asked[1])
            if begin >= file.size:
                return self._send(416, b"", {"Content-Range": f"bytes */{file.size}"})
            if hub.take(name, "wrong-range"):
                begin = 0
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{file.size - 1}/{file.size}"
        if hub.take(name, "flip"):
            data[file.size // 2] ^= 1
        if hub.take(name, "replaced"):
            data = bytearray(byte ^ 255 for byte in data)
        if hub.take(name, "long"):
            return self._send(200, bytes(data) + b"more", headers, False, name)
        kind = hub.take(name, "short", "stall", "wrong-length", "slow")
        body = bytes(data[begin:])
        if kind == "slow":
            self._send(status, b"", headers, len(body))
            for piece in range(0, len(body), -(-len(body) // PIECES)):
                self._write(body[piece : piece + -(-len(body) // PIECES)], name)
                hub.release.wait(PAUSE)
            return None
        announced = len(body) + (1000 if kind == "wrong-length" else 0)
        cut = body[: len(body) // 3] if kind in ("short", "stall") else body
        self._send(status, cut, headers, announced, name)
        if kind == "stall":
            self.wfile.flush()
            hub.release.wait(30)
        if kind:
            self.close_connection = True
        return None

    def _broken(self, kind: str) -> None:
        if kind == "html":
            return self._send(200, LOGIN_PAGE, {"Content-Type": "text/html"})
        if kind == "html-unknown-length":
            return self._send(200, LOGIN_PAGE, {"Content-Type": "text/html"}, length=False)
        if kind == "busy":
            return self._send(429, b"", {"Retry-After": "0"})
        if kind == "error500":
            return self._error(500, "", "boom")
        return self._error(403 if kind == "gated" else 401, "GatedRepo", "Access is restricted")

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str],
        length: int | bool = True,
        name: str = "",
    ) -> None:
        """Answer; `length` is announced: the body's (True), none (False), or another."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if length is False:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body) if length is True else length))
        self.end_headers()
        if self.command != "HEAD":
            self._write(body, name)

    def _write(self, body: bytes, name: str) -> None:
        # Counted first: a client that hangs up has gone on before the write returns.
        with self.server.hub.lock:
            self.server.hub.sent[name] += len(body)
        self.wfile.write(body)
        self.wfile.flush()
