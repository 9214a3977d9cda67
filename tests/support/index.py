"""A loopback package index and the dummy wheels in it.

Speaks the simple API as JSON (PEP 691, PEP 700) and HTML (PEP 503), serves ranges, and commits on
demand the faults that real indexes commit.
"""

import hashlib
import json
import threading
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from urllib.parse import quote, unquote

LONG_AGO = "2026-01-01T00:00:00.000000Z"


def wheel(
    name: str,
    version: str,
    tag: str = "py3-none-any",
    *,
    requires: Sequence[str] = (),
    requires_python: str = "",
    files: Mapping[str, bytes] | None = None,
    wheel_tag: str = "",
    record: Mapping[str, str] | None = None,
) -> tuple[str, bytes]:
    """File name and bytes of a wheel; `wheel_tag` and `record` make its inside contradict it."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Python: {requires_python}"] if requires_python else []
    metadata += [f"Requires-Dist: {line}" for line in requires]
    contents = {
        f"{name.replace('-', '_')}.py": f"version = {version!r}\n".encode(),
        **(files or {}),
        f"{info}/METADATA": ("\n".join(metadata) + "\n\nA dummy.\n\nTag: not a header\n").encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
            f"Tag: {wheel_tag or tag}\n"
        ).encode(),
    }
    rows = {path: _row(path, data) for path, data in contents.items()} | dict(record or {})
    contents[f"{info}/RECORD"] = ("".join(rows.values()) + f"{info}/RECORD,,\n").encode()
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), data)
    return f"{stem}-{tag}.whl", buffer.getvalue()


def _row(path: str, data: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


@dataclass
class File:
    """One file on the index, and what is wrong with it."""

    filename: str
    data: bytes
    uploaded: str = LONG_AGO
    requires_python: str = ""
    sha256: str = ""  # published; empty means the true one
    break_after: int = 0  # the first answer ends after so many bytes, though it promised all
    ignores_ranges: bool = False
    before: Callable[[], object] = int  # called before the first byte goes out


@dataclass
class Index:
    """What the server holds, and what it was asked."""

    files: list[File] = field(default_factory=list)
    html_only: bool = False
    no_digests: bool = False
    no_head: bool = False  # HEAD is not allowed
    busy: int = 0  # so many requests are answered with 503 first
    credentials: str = ""  # "user:password", asked of every request
    requests: list[tuple[str, str]] = field(default_factory=list)  # path, Range header
    url: str = ""

    def add(self, file: tuple[str, bytes], **faults: object) -> File:
        """Publish a file."""
        added = File(*file, **faults)  # type: ignore[arg-type]  # the keywords of File
        self.files.append(added)
        return added

    @property
    def simple(self) -> str:
        """The index URL."""
        return f"{self.url}/simple"

    def authorised(self) -> str:
        """The index URL with the credentials in it."""
        return self.simple.replace("://", f"://{self.credentials}@")

    def transfers(self, filename: str) -> list[str]:
        """The Range headers of all requests for a file, in order."""
        return [ranged for path, ranged in self.requests if path == f"/files/{filename}"]


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    """Serve an index on a free port of the loopback interface."""
    handler = type("Handler", (_Handler,), {"index": index})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    index: Index
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        index, path = self.index, unquote(self.path)
        index.requests.append((path, self.headers.get("Range", "")))
        wanted = f"Basic {b64encode(index.credentials.encode()).decode()}"
        if index.busy:
            index.busy -= 1
            self._answer(503, b"", {"Retry-After": "0"})
        elif index.credentials and self.headers.get("Authorization") != wanted:
            self._answer(401, b"", {"WWW-Authenticate": "Basic"})
        elif path.startswith("/simple/"):
            self._page(path.strip("/").rpartition("/")[2])
        elif path.startswith("/files/"):
            self._file(path.removeprefix("/files/"))
        else:
            self._answer(404, b"")

    def do_HEAD(self) -> None:
        if self.index.no_head:
            self._answer(405, b"")
            return
        name = unquote(self.path).removeprefix("/files/")
        file = next((file for file in self.index.files if file.filename == name), None)
        self.send_response(404 if file is None else 200)
        if file is not None and not file.ignores_ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(file.data) if file else 0))
        self.end_headers()

    def _page(self, project: str) -> None:
        normalised = project.replace("-", "_")
        files = [f for f in self.index.files if f.filename.lower().startswith(f"{normalised}-")]
        if not files:
            self._answer(404, b"")
        elif self.index.html_only or "json" not in self.headers.get("Accept", ""):
            self._answer(200, self._html(files), {"Content-Type": "text/html"})
        else:
            body = json.dumps(
                {
                    "meta": {"api-version": "1.1"},
                    "name": project,
                    "versions": sorted({file.filename.split("-")[1] for file in files}),
                    "files": [self._entry(file) for file in files],
                }
            )
            kind = "application/vnd.pypi.simple.v1+json"
            self._answer(200, body.encode(), {"Content-Type": kind})

    def _digest(self, file: File) -> str:
        if self.index.no_digests:
            return ""
        return file.sha256 or hashlib.sha256(file.data).hexdigest()

    def _entry(self, file: File) -> dict[str, object]:
        digest = self._digest(file)
        return {
            "filename": file.filename,
            "url": f"../../files/{quote(file.filename)}",
            "hashes": {"sha256": digest} if digest else {},
            "requires-python": file.requires_python or None,
            "size": len(file.data),
            "upload-time": file.uploaded,
            "yanked": False,
        }

    def _html(self, files: Sequence[File]) -> bytes:
        anchors = [
            f'<a href="../../files/{quote(file.filename)}'
            + (f"#sha256={digest}" if (digest := self._digest(file)) else "")
            + f'" data-requires-python="{file.requires_python.replace(">", "&gt;")}">'
            + f"{file.filename}</a>"
            for file in files
        ]
        return f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>".encode()

    def _file(self, name: str) -> None:
        file = next((file for file in self.index.files if file.filename == name), None)
        if file is None:
            self._answer(404, b"")
            return
        start, stop = 0, len(file.data)
        ranged = "" if file.ignores_ranges else self.headers.get("Range", "")
        if ranged:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            start, stop = int(first), int(last) + 1 if last else stop
            if start >= len(file.data):
                self._answer(416, b"")
                return
        end = stop
        if file.break_after:
            end, file.break_after = file.break_after, 0
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        file.before()
        self.wfile.write(file.data[start:end])
        if end < stop:
            self.close_connection = True

    def _answer(self, code: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
