"""The relay between real sockets: a client by hand on one side, a server by hand on the other."""

import asyncio
import contextlib
import json
import os
import resource
import socket
import sys

import h11
import pytest

from bundlectl.crowd import most_connections
from bundlectl.front import Address, Front
from bundlectl.frontrules import Rules
from bundlectl.httppeer import Peer
from bundlectl.route import Route, Target
from manifests.errors import TargetError
from tests.support.small import free_port

PATIENCE = 10  # seconds for anything that has to happen
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Bench:
    """A front, a server whose handler each test writes, and clients."""

    def __init__(self, folder):
        self.path = str(folder / "s.sock")
        self.route = Route()
        self.front = Front(self.route)
        self.target = Target(self.path)
        self.seen = []  # heads of the requests that came through
        self.address = Address("127.0.0.1", free_port())

    async def begin(self, handler):
        async def serve(reader, writer):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                self.seen.append(await reader.readuntil(b"\r\n\r\n"))
                await handler(reader, writer)
            writer.close()

        self.server = await asyncio.start_unix_server(serve, self.path)
        await self.front.listen(self.address)
        self.route.open(self.target)

    async def connect(self):
        return await asyncio.open_connection(self.address.host, self.address.port)

    async def ask(self, data):
        """Everything that comes back until the connection closes."""
        reader, writer = await self.connect()
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer


async def answer(reader, writer, data=OK):
    writer.write(data)
    await writer.drain()


def says(data):
    async def handler(reader, writer):
        await answer(reader, writer, data)

    return handler


def run(folder, handler, test):
    async def whole():
        bench = Bench(folder)
        async with asyncio.timeout(PATIENCE):
            await bench.begin(handler)
            await test(bench)
            await bench.front.close()
            bench.server.close()

    asyncio.run(whole())


def head(raw):
    first, *lines = raw.split(b"\r\n\r\n")[0].split(b"\r\n")
    return first, {line.split(b": ")[0].lower(): line.split(b": ")[1] for line in lines}


async def read_head(reader):
    return head(await reader.readuntil(b"\r\n\r\n"))


def test_a_request_goes_through_and_comes_back(tmp_path):
    async def test(bench):
        reader, writer = await bench.connect()
        for _ in range(2):  # on one connection
            writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: x-own\r\nX-Own: 1\r\n\r\n"))
            first, headers = await read_head(reader)
            assert first == b"HTTP/1.1 201 Made"
            assert headers == {b"content-length": b"2", b"x-more": b"1"}
            assert await reader.readexactly(2) == b"hi"
        writer.close()
        assert len(bench.seen) == 2
        first, headers = head(bench.seen[0])
        assert first == b"GET /v1/models HTTP/1.1"
        assert headers == {
            b"host": b"localhost",  # whatever the client called us
            b"authorization": b"Bearer k",
            b"connection": b"close",
        }
        assert await bench.target.drained(5)

    made = b"HTTP/1.1 201 Made\r\nContent-Length: 2\r\nX-More: 1\r\nKeep-Alive: 5\r\n\r\nhi"
    run(tmp_path, says(made), test)


def test_each_piece_of_a_stream_arrives_before_the_next_is_made(tmp_path):
    more = asyncio.Event()

    async def handler(reader, writer):
        await answer(reader, writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await answer(reader, writer, b"3\r\none\r\n")
        await more.wait()
        await answer(reader, writer, b"3\r\ntwo\r\n0\r\n\r\n")

    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(GET)
        await read_head(reader)
        assert await reader.readexactly(8) == b"3\r\none\r\n"
        assert bench.target.requests == 1
        more.set()
        assert await reader.readexactly(13) == b"3\r\ntwo\r\n0\r\n\r\n"
        writer.close()

    run(tmp_path, handler, test)


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_is_passed_on_as_it_comes(tmp_path, chunked):
    first = asyncio.Event()

    async def handler(reader, writer):
        assert await reader.readexactly(8 if chunked else 3) == (
            b"3\r\none\r\n" if chunked else b"one"
        )
        first.set()
        assert (await reader.readexactly(13 if chunked else 3)).startswith(
            b"3\r\ntwo" if chunked else b"two"
        )
        await answer(reader, writer)

    async def test(bench):
        reader, writer = await bench.connect()
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 6"
        writer.write(POST + length + b"\r\n\r\n" + (b"3\r\none\r\n" if chunked else b"one"))
        await first.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n" if chunked else b"two")
        assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
        writer.close()

    run(tmp_path, handler, test)


def test_requests_that_come_at_once_are_answered_in_turn(tmp_path):
    async def test(bench):
        raw = await bench.ask(
            GET + GET + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        assert raw.count(b"HTTP/1.1 200") == 3
        assert len(bench.seen) == 3

    run(tmp_path, says(OK), test)


def test_a_client_that_leaves_ends_its_request(tmp_path):
    left = asyncio.Event()

    async def handler(reader, writer):
        assert await reader.read() == b""
        left.set()

    async def test(bench):
        _, writer = await bench.connect()
        writer.write(GET)
        while not bench.seen:
            await asyncio.sleep(0.01)
        writer.close()
        await left.wait()
        assert await bench.target.drained(5)

    run(tmp_path, handler, test)


def test_a_server_that_breaks_off(tmp_path):
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"

    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(GET)
        await read_head(reader)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(9)
        writer.close()

    run(tmp_path, says(cut), test)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2", b"\x00nonsense\r\n\r\n"])
def test_a_server_that_gives_no_answer(tmp_path, said):
    async def test(bench):
        reader, writer = await bench.connect()
        for _ in range(2):  # the connection to the client survives it
            writer.write(GET)
            first, headers = await read_head(reader)
            assert first.startswith(b"HTTP/1.1 502")
            await reader.readexactly(int(headers[b"content-length"]))
        writer.close()

    run(tmp_path, says(said), test)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET /v1/models HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", b"400"),
        (b"GET /v1/models HTTP/1.1\r\nHost: x/y?\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /v1/models HTTP/1.1\r\nHost: h\r\nX : 1\r\n\r\n", b"400"),
        (b"GET http://other/v1/models HTTP/1.1\r\nHost: h\r\n\r\n", b"400"),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b"400"),
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"501"),
        (b"GET /v1/" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", b"431"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(tmp_path, sent, status):
    async def test(bench):
        raw = await bench.ask(sent + b"GET /v1/smuggled HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert raw.startswith(b"HTTP/1.1 " + status)
        assert not any(b"smuggled" in one or b"POST" in one for one in bench.seen)

    run(tmp_path, says(OK), test)


def test_a_head_that_never_ends_is_bounded(tmp_path):
    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(b"GET /v1/models HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"X: " + b"y" * 10_000 + b"\r\n")
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            assert (await reader.read()).startswith(b"HTTP/1.1 431")
        writer.close()

    run(tmp_path, says(OK), test)


def test_before_a_server_serves_clients_are_told_to_come_again(tmp_path):
    async def test(bench):
        bench.route.close("the server has not started yet")
        reader, writer = await bench.connect()
        for _ in range(2):
            writer.write(POST + b"Content-Length: 3\r\n\r\none")
            first, headers = await read_head(reader)
            assert first.startswith(b"HTTP/1.1 503")
            assert int(headers[b"retry-after"]) > 0
            body = json.loads(await reader.readexactly(int(headers[b"content-length"])))
            assert body["error"]["message"] == "the server has not started yet"
        writer.close()

    run(tmp_path, says(OK), test)


def test_held_requests_go_to_the_next_server(tmp_path):
    async def test(bench):
        bench.front.hold_timeout = 30
        bench.route.hold()
        reader, writer = await bench.connect()
        writer.write(POST + b"Content-Length: 3\r\n\r\none")
        while not bench.route.waiting:
            await asyncio.sleep(0.01)
        health = await bench.ask(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 503 " in health  # whoever watches is told at once
        assert bench.seen == []
        bench.route.open(bench.target)
        assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
        writer.close()

    run(tmp_path, says(OK), test)


def test_nobody_is_held_for_longer_than_the_bound(tmp_path):
    async def test(bench):
        bench.front.hold_timeout = 0.1
        bench.route.hold()
        assert b" 503 " in await bench.ask(
            GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        assert bench.route.waiting == 0

    run(tmp_path, says(OK), test)


def test_the_old_server_gets_no_new_request_and_finishes_its_own(tmp_path):
    more = asyncio.Event()

    async def handler(reader, writer):
        await more.wait()
        await answer(reader, writer)

    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(GET)
        while not bench.seen:
            await asyncio.sleep(0.01)
        path = str(tmp_path / "next.sock")

        async def other(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            await answer(reader, writer, OK.replace(b"hi", b"yo"))
            writer.close()

        following = await asyncio.start_unix_server(other, path)
        bench.route.open(Target(path))
        closing = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        assert (await bench.ask(closing)).endswith(b"yo")
        assert not await bench.target.drained(0.1)
        more.set()
        assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
        assert await bench.target.drained(5)
        writer.close()
        following.close()

    run(tmp_path, handler, test)


def test_an_answer_before_the_end_of_the_body_arrives(tmp_path):
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(POST + b"Content-Length: 900000\r\n\r\n" + b"x" * 300_000)
        first, _ = await read_head(reader)
        assert first == b"HTTP/1.1 413 Too Large"
        assert await reader.readexactly(2) == b"no"
        writer.close()

    run(tmp_path, says(refusal), test)


def test_a_client_that_asks_first_is_told_to_go_on(tmp_path):
    async def handler(reader, writer):
        assert await reader.readexactly(3) == b"one"
        await answer(reader, writer)

    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert (await read_head(reader))[0].startswith(b"HTTP/1.1 100")
        writer.write(b"one")
        assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
        assert b"xpect" not in bench.seen[0]
        writer.close()

    run(tmp_path, handler, test)


def test_an_old_client_gets_a_stream_without_chunks(tmp_path):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"

    async def test(bench):
        raw = await bench.ask(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert raw.endswith(b"\r\n\r\nhi")
        assert b"chunked" not in raw

    run(tmp_path, says(chunked), test)


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
def test_answers_without_a_body(tmp_path, method):
    length = b"Content-Length: 5\r\n" if method == b"HEAD" else b""
    bare = b"HTTP/1.1 %s\r\n%s\r\n" % (b"200 OK" if length else b"204 No Content", length)

    async def test(bench):
        reader, writer = await bench.connect()
        for _ in range(2):
            writer.write(GET.replace(b"GET", method))
            await read_head(reader)
        writer.close()

    run(tmp_path, says(bare), test)


def test_a_client_that_does_not_read_holds_its_server_and_no_memory(tmp_path):
    sent = 0

    async def handler(reader, writer):
        nonlocal sent
        await answer(reader, writer, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while True:
            await answer(reader, writer, bytes(100_000))
            sent += 100_000

    async def test(bench):
        _, writer = await bench.connect()
        writer.write(GET)
        before = -1
        while sent != before or not sent:
            before = sent
            await asyncio.sleep(0.5)
        assert sent < 30_000_000  # what sockets keep
        writer.transport.abort()

    run(tmp_path, handler, test)


def test_other_machines_get_to_the_interface_alone(tmp_path):
    """The address of a request that this machine sends to its own outer address is that one."""
    outer = socket.gethostbyname(socket.gethostname())
    if outer.startswith("127."):
        pytest.skip("this machine has no address but loopback")

    async def test(bench):
        await bench.front.listen(Address("0.0.0.0", bench.address.port))
        metrics = b"GET /metrics HTTP/1.0\r\n\r\n"
        assert b" 200 " in await bench.ask(metrics)
        bench.address = Address(outer, bench.address.port)
        assert b" 403 " in await bench.ask(metrics)
        assert b" 200 " in await bench.ask(b"GET /v1/models HTTP/1.0\r\n\r\n")
        bench.front.rules = Rules(("/metrics",))
        assert b" 200 " in await bench.ask(metrics)

    run(tmp_path, says(OK), test)


def test_a_port_that_is_taken(tmp_path):
    async def test(bench):
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = Address("127.0.0.1", other.getsockname()[1])
            with pytest.raises(TargetError, match=f":{taken.port}: Address already in use"):
                await bench.front.listen(taken)
        closing = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        assert (await bench.ask(closing)).endswith(b"hi")  # where it was before

    run(tmp_path, says(OK), test)


def test_a_name_that_is_none(tmp_path):
    async def test(bench):
        for step in (bench.front.reserve, bench.front.listen):
            with pytest.raises(TargetError, match="1:2:3:80: Name or service not known"):
                await step(Address("1:2:3", 80))

    run(tmp_path, says(OK), test)


def test_a_second_address_is_given_up_or_taken(tmp_path):
    async def test(bench):
        was, other = bench.address, Address("127.0.0.1", free_port())
        closing = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        for move in (False, True):
            await bench.front.reserve(other)
            for bench.address in (was, other):
                assert (await bench.ask(closing)).endswith(b"hi")
            if move:
                await bench.front.listen(other)
            bench.front.release()
            gone, left = (was, other) if move else (other, was)
            bench.address = left
            assert (await bench.ask(closing)).endswith(b"hi")
            bench.address = gone
            with pytest.raises(ConnectionRefusedError):
                await bench.ask(closing)

    run(tmp_path, says(OK), test)


def test_a_server_that_is_not_there(tmp_path):
    async def test(bench):
        bench.route.open(Target(str(tmp_path / "nobody.sock")))
        assert b" 503 " in await bench.ask(b"GET /v1/models HTTP/1.0\r\n\r\n")

    run(tmp_path, says(OK), test)


CLOSING = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("target", [b"/v1/models", b"h:80"])
def test_nobody_tunnels(tmp_path, target):
    async def test(bench):
        reader, writer = await bench.connect()
        writer.write(b"CONNECT %s HTTP/1.1\r\nHost: h\r\n\r\n" % target + CLOSING)
        first, headers = await read_head(reader)
        assert first.startswith(b"HTTP/1.1 405")
        await reader.readexactly(int(headers[b"content-length"]))
        assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"  # HTTP goes on
        writer.close()
        assert len(bench.seen) == 1

    run(tmp_path, says(OK), test)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_no_other_protocol_begins(tmp_path, protocol):
    """A client that offers one, as some do with every request, goes on with this one."""
    offer = b"\r\nConnection: upgrade\r\nUpgrade: %s\r\n\r\n" % protocol

    async def test(bench):
        reader, writer = await bench.connect()
        for _ in range(2):
            writer.write(GET.replace(b"\r\n\r\n", offer))
            assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
            assert await reader.readexactly(2) == b"hi"
        writer.close()
        assert not any(b"pgrade" in one for one in bench.seen)

    run(tmp_path, says(OK), test)


def test_a_server_that_would_change_the_protocol_breaks_off(tmp_path):
    async def test(bench):
        assert b" 502 " in await bench.ask(CLOSING)

    switch = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nmore"
    run(tmp_path, says(switch), test)


def test_a_pause_of_the_parser_is_an_end():
    async def test():
        reader = asyncio.StreamReader()
        peer = Peer(h11.SERVER, reader, None)
        reader.feed_data(b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\nmore")
        events = [await peer.receive() for _ in range(3)]
        assert isinstance(events[2], h11.ConnectionClosed)

    asyncio.run(test())


def test_a_refusal_of_a_question_about_the_head(tmp_path):
    async def test(bench):
        bench.route.close("not yet")
        raw = await bench.ask(CLOSING.replace(b"GET", b"HEAD"))
        assert raw.startswith(b"HTTP/1.1 503")
        assert raw.endswith(b"\r\n\r\n")

    run(tmp_path, says(OK), test)


def test_who_waits_for_nothing_makes_room(tmp_path):
    async def test(bench):
        bench.front.crowd.most = 3
        idle = [await bench.connect() for _ in range(3)]
        idle[0][1].write(GET)  # the first one stays because it was busy last
        await read_head(idle[0][0])
        assert (await bench.ask(CLOSING)).endswith(b"hi")
        assert await idle[1][0].read() == b""
        idle[0][1].write(GET)
        assert await idle[0][0].readexactly(2) == b"hi"
        assert (await read_head(idle[0][0]))[0] == b"HTTP/1.1 200 OK"
        for _, writer in idle:
            writer.close()

    run(tmp_path, says(OK), test)


def test_no_more_connections_than_there_are_files_for(tmp_path):
    more = asyncio.Event()

    async def handler(reader, writer):
        await more.wait()
        await answer(reader, writer)

    async def test(bench):
        bench.front.crowd.most = 3
        busy = [await bench.connect() for _ in range(3)]
        for _, writer in busy:
            writer.write(GET)
        while bench.target.requests < 3:
            await asyncio.sleep(0.01)
        for _ in range(5):
            reader, writer = await bench.connect()
            first, headers = await read_head(reader)
            assert first.startswith(b"HTTP/1.1 503")
            assert b"retry-after" in headers
            assert b"too many" in await reader.read()
            writer.close()
        assert len(bench.seen) == 3
        more.set()
        for reader, writer in busy:
            assert (await read_head(reader))[0] == b"HTTP/1.1 200 OK"
            writer.close()
        answered = b""
        while not answered.endswith(b"hi"):  # once it has seen that they left
            with contextlib.suppress(ConnectionError):
                answered = await bench.ask(CLOSING)

    run(tmp_path, handler, test)


async def statuses(bench, count):
    """What so many clients at once are told; empty for one that is cut off."""

    async def one():
        with contextlib.suppress(ConnectionError):
            return (await bench.ask(CLOSING)).partition(b" ")[2][:3]
        return b""

    return [asyncio.create_task(one()) for _ in range(count)]


def test_a_place_is_given_once(tmp_path):
    """Of many that come at once, some lose theirs while their request arrives."""
    more = asyncio.Event()

    async def handler(reader, writer):
        await more.wait()
        await answer(reader, writer)

    async def test(bench):
        bench.front.crowd.most = 8
        clients = await statuses(bench, 60)
        while sum(client.done() for client in clients) < 52:
            await asyncio.sleep(0.01)
        assert bench.target.requests <= 8
        more.set()
        told = [await client for client in clients]
        assert 1 <= told.count(b"200") <= 8
        assert set(told) <= {b"200", b"503", b""}

    run(tmp_path, handler, test)


FRONT = """
import asyncio, resource, sys
from bundlectl.front import Address, Front
from bundlectl.route import Route, Target

async def live(path, port):
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    route = Route()
    route.open(Target(path))
    await Front(route).listen(Address("127.0.0.1", int(port)))
    print("listens", flush=True)
    await asyncio.Event().wait()

asyncio.run(live(*sys.argv[1:]))
"""


def test_files_never_run_out(tmp_path):
    async def handler(reader, writer):
        await asyncio.sleep(0.2)
        await answer(reader, writer)

    async def test(bench):
        await bench.front.close()
        front = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FRONT, bench.path, str(bench.address.port)),
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await front.stdout.readline()
        silent = [await bench.connect() for _ in range(200)]
        told = await asyncio.gather(*await statuses(bench, 200))
        assert told.count(b"200") >= 1
        assert (await bench.ask(CLOSING)).endswith(b"hi")
        front.terminate()
        assert await front.stderr.read() == b""
        await front.wait()
        for _, writer in silent:
            writer.close()

    run(tmp_path, handler, test)


@pytest.mark.parametrize(("files", "most"), [(1024, 448), (256, 64), (100, 1), (None, 16_384)])
def test_connections_that_a_process_has_files_for(monkeypatch, files, most):
    limit = resource.RLIM_INFINITY if files is None else files
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert most_connections() == most
