"""Measure what the front costs: the same requests through it and straight to the server.

    python benchmarks/front.py [--seconds 4]

The server is the least that answers (one process, prepared bytes), so the ratios are the worst
case: a real one spends milliseconds on what this one does in microseconds. Requests per second by
eight clients on kept connections, the median answer of a single client, and pieces per second of
one stream. Straight means a new connection to the server's Unix socket each time, as the front has.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "installer")]

from bundlectl.front import Address, Front  # noqa: E402 - the repository is put on the path above
from bundlectl.route import Route, Target  # noqa: E402

CLIENTS = 8
PIECES = 20_000
REQUEST = b"POST /v1/%s HTTP/1.1\r\nHost: h\r\nContent-Length: 200\r\n\r\n" + b"x" * 200
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + b"y" * 400
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"c8\r\n" + b"z" * 200 + b"\r\n"  # about the size of one token's event


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(200)
        if b"/stream" in head:
            writer.write(HEAD)
            for _ in range(PIECES):
                writer.write(PIECE)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        else:
            writer.write(ANSWER)
        await writer.drain()
    writer.close()


def serve(path: str) -> None:
    """The server's process."""

    async def live() -> None:
        server = await asyncio.start_unix_server(_answer, path)
        await server.serve_forever()

    asyncio.run(live())


def relay(path: str, port: int) -> None:
    """The front's process."""

    async def live() -> None:
        route = Route()
        route.open(Target(path))
        await Front(route).listen(Address("127.0.0.1", port))
        await asyncio.Event().wait()

    asyncio.run(live())


def _connected(place: str | int) -> socket.socket:
    if isinstance(place, int):
        made = socket.create_connection(("127.0.0.1", place))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    made = socket.socket(socket.AF_UNIX)
    made.connect(place)
    return made


def _ask(connection: socket.socket) -> None:
    connection.sendall(REQUEST % b"chat")
    data = b""
    while not data.endswith(b"y" * 400):
        data += connection.recv(65536)


def _client(place: str | int, until: float) -> list[float]:
    """Seconds of each answer until a time of time.monotonic()."""
    took = []
    connection = None
    while (begun := time.monotonic()) < until:
        connection = connection or _connected(place)
        _ask(connection)
        took.append(time.monotonic() - begun)
        if isinstance(place, str):  # the server takes one request a connection
            connection.close()
            connection = None
    return took


def measure(place: str | int, seconds: float) -> tuple[float, float, float]:
    """Requests per second, seconds of a single client's answer, pieces per second."""
    with multiprocessing.Pool(CLIENTS) as pool:
        until = time.monotonic() + seconds
        many = pool.starmap(_client, [(place, until)] * CLIENTS)
    alone = statistics.median(_client(place, time.monotonic() + seconds))
    begun = time.monotonic()
    with _connected(place) as connection:
        connection.sendall(REQUEST % b"stream")
        end = b""
        while not end.endswith(b"0\r\n\r\n"):
            end = (end + connection.recv(1 << 20))[-10:]
    return sum(map(len, many)) / seconds, alone, PIECES / (time.monotonic() - begun)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[str, int]]:
    """A server and a front before it: the server's socket, the front's port."""
    path = str(folder / "server.sock")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        multiprocessing.Process(target=serve, args=(path,)),
        multiprocessing.Process(target=relay, args=(path, port)),
    ]
    for process in processes:
        process.start()
    time.sleep(1.0)
    try:
        yield path, port
    finally:
        for process in processes:
            process.kill()
            process.join()


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as (path, port):
        straight, fronted = measure(path, seconds), measure(port, seconds)
    for name, without, through in zip(
        ("requests/s, 8 clients", "ms, one client", "pieces/s, one stream"),
        straight,
        fronted,
        strict=True,
    ):
        unit = 1000 if name.startswith("ms") else 1
        print(
            f"{name:22} straight {without * unit:10.2f}  through the front {through * unit:10.2f}"
            f"  ratio {through / without:.2f}"
        )


if __name__ == "__main__":
    main()
