"""The exported proxies at work: nginx and haproxy before a server that tells what it is asked."""

import http.client
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bundlectl import exports
from bundlectl.config import ServeConfig
from bundlectl.exports import Public
from bundlectl.layout import Layout
from tests.support.small import free_port

_PATH = f"{os.environ['PATH']}:/usr/sbin"
_NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/exported;
}}
"""


@dataclass
class Server:
    """Stands where vLLM does, and keeps what reached it."""

    port: int
    paths: list[str] = field(default_factory=list)
    going_on: threading.Event = field(default_factory=threading.Event)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A folder with x.crt, x.key and both in x.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", "x.key", "-out", "x.crt")
    subprocess.run(
        ["openssl", "req", "-x509", *kind, "-days", "2", "-subj", "/CN=x", *files],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    both = (folder / "x.crt").read_text() + (folder / "x.key").read_text()
    (folder / "x.pem").write_text(both)
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            kept.paths.append(self.path)
            if self.path != "/v1/stream":
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                told = f"{self.path} {self.headers.get('Authorization')} {len(body)}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nfirst\r\n")
            self.wfile.flush()
            kept.going_on.wait(10)
            self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")

        do_POST = do_GET  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    kept = Server(listener.server_address[1])
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield kept
    listener.shutdown()
    listener.server_close()


@contextmanager
def running(words: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if process.poll() is not None:
                pytest.fail(f"{words[0]} ended: {process.communicate()[0].decode()}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.communicate(timeout=10)


def exported(kind: str, server: Server, port: int, certificate: Path) -> str:
    """What is exported, with the certificate where a test can have it."""
    layout, settings = Layout(Path("/opt/x y")), ServeConfig(port=server.port)
    text = exports.render(kind, layout, settings, Public(port))
    for ending in ("crt", "key", "pem"):
        text = text.replace(f"/etc/{kind}/tls/vllm-bundle.{ending}", f"{certificate}/x.{ending}")
    return text


@pytest.fixture(params=["nginx", "haproxy"])
def proxy(request, server, certificate, tmp_path) -> Iterator[int]:
    """The port of a proxy before the server; a new one for each test, for its counters."""
    kind, port = request.param, free_port()
    program = shutil.which(kind, path=_PATH)
    if program is None:
        pytest.skip(f"{kind} is not installed")
    own = tmp_path / "exported"
    own.write_text(exported(kind, server, port, certificate))
    if kind == "nginx":
        user = "user root;" if os.geteuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(_NGINX.format(folder=tmp_path, user=user))
        words = [program, "-p", str(tmp_path), "-e", "error.log", "-c", "nginx.conf"]
        check = [*words, "-t"]
    else:
        words = [program, "-db", "-f", str(own)]
        check = [program, "-c", "-f", str(own)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in (done.stdout + done.stderr).lower()
    server.paths.clear()
    server.going_on.clear()
    with running(words, port):
        if kind == "haproxy":
            time.sleep(0.1)  # its first look at the server
        yield port


@dataclass
class Client:
    """One client with one connection."""

    connection: http.client.HTTPSConnection

    def __call__(self, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
        self.connection.request(method, path, body or None, {"Authorization": "Bearer abc"})
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def ask(proxy) -> Iterator[Client]:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", proxy, context=trusting, timeout=10)
    yield Client(connection)
    connection.close()


def test_what_clients_need_goes_through(ask):
    assert ask("/v1/models?a=1%20b") == (200, "/v1/models?a=1%20b Bearer abc 0")
    picture = b"x" * (3 << 20)
    assert ask("/v1/chat/completions", "POST", picture) == (
        200,
        f"/v1/chat/completions Bearer abc {len(picture)}",
    )
    assert ask("/health")[0] == 200


#: vLLM mounts /metrics as a prefix: a path that only begins with it is answered, too.
CLOSED = (
    "/",
    "/metrics",
    "/metrics/",
    "//metrics",
    "/docs",
    "/openapi.json",
    "/tokenize",
    "/load",
    "/version",
    "/v1",
    "/v1/../metrics",
    "/v1/%2e%2e/metrics",
    "/v1/..%2fmetrics",
    "/metrics/../v1/models",
    "/metrics/%2e%2e/v1/models",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/v1/%6coad_lora_adapter",
    "/v1/x/../load_lora_adapter",
)


def test_nothing_else_reaches_the_server(ask, server):
    for path in CLOSED:
        server.paths.clear()
        status, _ = ask(path, "POST" if "lora" in path else "GET")
        reached = [one for one in server.paths if one != "/health"]
        assert (path, reached) in ((path, []), (path, ["/v1/models"]))
        assert (path, status) == (path, 200 if reached else 404)


def test_tokens_come_one_by_one(ask, server):
    ask.connection.request("GET", "/v1/stream")
    answer = ask.connection.getresponse()
    assert answer.read(5) == b"first"  # while the server holds back the rest
    server.going_on.set()
    assert answer.read() == b"last"


def test_a_client_that_asks_too_often_is_told(ask):
    statuses = [ask("/v1/models")[0] for _ in range(160)]
    assert statuses[:40] == [200] * 40
    assert set(statuses) == {200, 429}
    assert ask("/health")[0] == 200
