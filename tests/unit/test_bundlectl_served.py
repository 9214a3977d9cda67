"""A server as its keeper starts and ends it: one step at a time, whoever else has asked."""

import asyncio
import sys
from pathlib import Path

import pytest

from bundlectl import process
from bundlectl.layout import Layout
from bundlectl.process import Service
from bundlectl.rotation import RotatingLog
from bundlectl.served import Launch, Server

STUB = Path(__file__).with_name("stub_server.py")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """One that takes longer to end than another start or stop waits."""
    monkeypatch.setattr(process, "_LOCK_PATIENCE", 0.2)
    layout = Layout(tmp_path / "prefix")
    layout.create()
    words = (sys.executable, str(STUB), "--port", "1", "--mode", "deaf")
    variables = {"VLLM_API_KEY": "k", "PATH": "/usr/bin:/bin"}
    launch = Launch(words, variables, Service("127.0.0.1", 1, "tiny", "r1"), 20, 5)
    log = RotatingLog(layout.logs / "server.log", 1 << 20, 2)
    return Server(layout, "server-1", launch, log, len)


async def started(server):
    await server.start()
    while server.log.path.read_bytes().count(b"child") < 2:
        await asyncio.sleep(0.02)


def test_two_may_stop_it_at_once(server):
    async def test():
        await started(server)
        await asyncio.gather(server.stop(0.9), server.stop(0.9))

    asyncio.run(test())
    assert not server.alive()


def test_a_stop_that_nobody_waits_for_any_more_is_finished_before_the_next_step(server):
    async def test():
        await started(server)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.stop(0.9), 0.1)
        await server.start()
        assert server.alive()
        await server.stop(0)

    asyncio.run(test())
    assert not server.alive()


def test_a_start_that_nobody_waits_for_any_more_leaves_nothing(server):
    async def test():
        start = asyncio.create_task(server.start())
        await asyncio.sleep(0)
        start.cancel()
        await server.stop(0)

    asyncio.run(test())
    assert not server.alive()
