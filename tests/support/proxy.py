"""A loopback HTTP proxy that asks for a password and stands between a name and a server."""

import threading
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """What it was asked; every request goes to `server`, whatever host it names."""

    server: str  # http://127.0.0.1:PORT
    credentials: str = ""  # "user:password"
    requests: list[str] = field(default_factory=list)  # absolute URLs
    address: str = ""  # 127.0.0.1:PORT

    @property
    def url(self) -> str:
        """As it stands in HTTP_PROXY."""
        return f"http://{self.credentials}@{self.address}" if self.credentials else self.address


@contextmanager
def proxying(proxy: Proxy) -> Iterator[Proxy]:
    """Serve on a free port of the loopback interface."""
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        proxy.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(405, b"", {})

    def do_GET(self) -> None:
        wanted = f"Basic {b64encode(self.proxy.credentials.encode()).decode()}"
        if self.proxy.credentials and self.headers.get("Proxy-Authorization") != wanted:
            self._answer(407, b"", {"Proxy-Authenticate": "Basic"})
            return
        self.proxy.requests.append(self.path)
        asked = urllib.request.Request(self.proxy.server + urlsplit(self.path).path)
        for name in ("Accept", "Range"):
            if name in self.headers:
                asked.add_header(name, self.headers[name])
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(asked) as answer:
                self._answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            with error:
                self._answer(error.code, error.read(), {})

    def _answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            if name in ("Content-Type", "Proxy-Authenticate"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
