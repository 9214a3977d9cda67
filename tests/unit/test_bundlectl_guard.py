"""What is a server's death and what is not, and a guard that survives its own troubles."""

import asyncio
import os
import resource
import signal
import sys

import pytest

from bundlectl import guard, served
from bundlectl.backoff import Backoff
from bundlectl.guard import Guard
from bundlectl.layout import Layout
from bundlectl.process import Service, Supervisor
from bundlectl.rotation import RotatingLog
from bundlectl.route import Route
from bundlectl.served import Launch, Server
from bundlectl.sockets import file_name
from manifests.errors import FilesystemError, ServerError
from tests.support import stub_vllm

KEY = "0123456789abcdef0123"
PATIENCE = 20  # seconds for anything that has to happen
#: What a remote client can have written into the log.
PLANTED = b'INFO: 192.0.2.7:1 - "GET /v1/x?EngineDeadError HTTP/1.1" 404 Not Found\n'


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "prefix")
    layout.create()
    return layout


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    for module, pause in ((served, "_LOOK"), (served, "_GRACE"), (guard, "_PAUSE")):
        monkeypatch.setattr(module, pause, 0.05)
    monkeypatch.setattr(served, "_CONFIRM", 1.0)


def server_of(layout, kind=Server, sink=len, mode=""):
    slot = "server-1"
    words = (sys.executable, stub_vllm.__file__, "--uds", file_name(slot))
    words += ("--served-model-name", "tiny")
    variables = {"VLLM_API_KEY": KEY, "STUB_MODE": mode, "PATH": "/usr/bin:/bin"}
    launch = Launch(words, variables, Service("127.0.0.1", 1, "tiny", "r1"), 20, 5)
    return kind(layout, slot, launch, RotatingLog(layout.logs / "server.log", 1 << 20, 2), sink)


def run(test, server):
    async def whole():
        try:
            async with asyncio.timeout(PATIENCE):
                await server.start()
                await server.prove()
                await test()
        finally:
            await Server.stop(server, 0)

    asyncio.run(whole())


def plant(layout):
    with (layout.run / "server-1.pipe").open("wb") as pipe:
        pipe.write(PLANTED)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.02)


def test_words_that_anybody_can_have_logged_kill_no_server(layout):
    server = server_of(layout)

    async def test():
        ill = asyncio.create_task(server.illness(30))
        for _ in range(2):
            plant(layout)
            await until(lambda: server._words.found)
            await until(lambda: not server._words.found)  # asked, and forgotten
        await asyncio.wait((ill,), timeout=0.3)
        assert not ill.done()
        ill.cancel()
        assert PLANTED in server.log.path.read_bytes()

    run(test, server)


def test_a_dead_engine_is_told_of_by_words_and_health(layout, monkeypatch):
    server = server_of(layout, mode="engine-dies")

    async def test():
        assert await server.illness(0) == "its engine died"

    run(test, server)


def test_a_server_that_hangs_after_such_words_is_dead_too(layout):
    server = server_of(layout)

    async def test():
        pid = server._supervisor.status().pid
        plant(layout)
        os.kill(pid, signal.SIGSTOP)
        assert await server.illness(0) == "its engine died"

    run(test, server)


class Hasty(Backoff):
    def failed(self, served):
        delay = super().failed(served)
        return delay if delay is None else 0.05


class Stubborn(Server):
    """What the tests can't have for real: a process in a driver's hands, a look that fails."""

    stops = looks = 0

    async def stop(self, patience):
        self.stops += 1
        if self.stops <= 2:
            raise ServerError("processes of the server do not end: 1")
        await super().stop(patience)

    async def illness(self, health_timeout):
        self.looks += 1
        if self.looks <= 2:
            raise FilesystemError("Too many open files")
        return await super().illness(health_timeout)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_guard_goes_on_whatever_fails(layout, deaf):
    told = []

    def tell(text):
        told.append(text)
        if deaf:
            raise BrokenPipeError

    server, route = server_of(layout, Stubborn), Route()

    async def test():
        watcher = Guard(layout, route, tell, lambda: Hasty(most=5))
        route.open(server.target)
        watcher.watch(server, 30)
        await until(lambda: server.looks == 3)
        os.kill(server._supervisor.status().pid, signal.SIGKILL)
        await until(lambda: watcher.restarts)
        assert route.target is server.target
        assert server.alive()
        await watcher.leave()

    run(test, server)
    lines = [line.removeprefix("tiny of r1: ") for line in told]
    assert lines == [
        "its state is unknown: Too many open files",  # once
        "it ended by itself, killed by SIGKILL",
        "processes of the server do not end: 1",
        "processes of the server do not end: 1",
        "it serves again",
    ]


def test_a_listener_that_has_left_ends_nothing(layout):
    def sink(data):
        raise BrokenPipeError

    server = server_of(layout, sink=sink)
    problems = []

    async def test():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: problems.append(told))
        plant(layout)
        await until(lambda: PLANTED in server.log.path.read_bytes())

    run(test, server)
    assert problems == []


def test_whether_our_own_child_lives_takes_no_file(layout):
    supervisor = Supervisor(layout, "server-1")
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    supervisor.start(words, {}, Service("127.0.0.1", 1, "tiny", "r1"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        with pytest.raises(OSError, match="Too many open files"):
            os.close(os.open(os.devnull, os.O_RDONLY))
        assert supervisor.alive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        supervisor.stop(0)
    assert not supervisor.alive()
