"""The keeper with real server processes behind it; command lines talk to it over its socket."""

import asyncio
import contextlib
import dataclasses
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from bundlectl import procfs, served, smoke
from bundlectl.api import at_socket
from bundlectl.backoff import Backoff
from bundlectl.config import ServeConfig
from bundlectl.control import Link, Lost
from bundlectl.keeper import SOCKET, Keeper, settings_of
from bundlectl.layout import Layout
from bundlectl.process import Service, Supervisor
from bundlectl.served import Launch
from bundlectl.sockets import file_name, socket_path
from manifests.errors import BundleError, TargetError, UsageError
from manifests.records import to_data
from tests.support import stub_vllm
from tests.support.load import load

KEY = "0123456789abcdef0123"
STUB = stub_vllm.__file__


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Host:
    """An installation's folders and its keeper, in a thread."""

    def __init__(self, folder, **settings):
        self.layout = Layout(folder / "prefix")
        self.layout.create()
        plain = ServeConfig(port=free_port(), hold_timeout=30, drain_timeout=30, stop_timeout=5)
        self.settings = dataclasses.replace(plain, **settings)
        self.url = f"http://127.0.0.1:{self.settings.port}"
        self.told = []
        self.mode_file = folder / "README.md"  # what makes the stub fail while it is there
        self.path = socket_path(self.layout, SOCKET)
        self.backoff = lambda: Backoff(most=3, good=60)

    def begin(self):
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()
        until(self._listens)

    def _listens(self):
        with contextlib.suppress(Lost):
            Link(self.path).close()
            return True
        return False

    def _live(self):
        async def life():
            keeper = Keeper(self.layout, "r0", self.told.append, len, self.backoff)
            await keeper.run()

        asyncio.run(life())

    @contextlib.contextmanager
    def link(self):
        with contextlib.closing(Link(self.path)) as link:
            yield link

    def status(self):
        with self.link() as link:
            return link.ask("status")

    @contextlib.contextmanager
    def switching(self, name, mode=""):
        """A conversation that has begun a switch, and what it asks the keeper to start."""
        with self.link() as link:
            link.ask("configure", settings=to_data(settings_of(self.settings)))
            place = link.ask("begin")
            slot = place["slot"]
            words = (sys.executable, STUB, "--uds", file_name(slot), "--served-model-name", name)
            words += ("--model", str(self.mode_file.parent))
            variables = {"VLLM_API_KEY": KEY, "STUB_MODE": mode, "PATH": "/usr/bin:/bin"}
            service = Service("127.0.0.1", self.settings.port, name, "r1")
            launch = Launch(words, variables, service, start_timeout=20, stop_timeout=5)
            details = {"log": Path(place["log"]).name, "launch": to_data(launch)}
            yield link, place, details

    def use(self, name, mode="", hold=False):
        """What `bundlectl use` does."""
        with self.switching(name, mode) as (link, place, details):
            try:
                if hold:
                    link.ask("hold")
                link.ask("launch", **details)
                smoke.wait_until_ready(
                    at_socket(socket_path(self.layout, place["slot"])),
                    KEY,
                    name,
                    lambda: link.ask("look")["alive"],
                    Path(place["log"]),
                    20,
                )
                link.ask("swap")
            except BundleError:
                return link.ask("abort")
            link.ask("retire")
        return None

    def serves(self):
        """The name of the model that answers at the public port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=20)
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        answer = connection.getresponse()
        data = json.load(answer)
        connection.close()
        return data["data"][0]["id"] if answer.status == 200 else answer.status

    def server(self):
        return Supervisor(self.layout).status().pid

    def end(self):
        with contextlib.suppress(Lost), self.link() as link:
            link.ask("hurry")
            link.ask("stop")
        self.thread.join(20)
        assert not self.thread.is_alive()
        for slot in ("server-1", "server-2"):
            assert not Supervisor(self.layout, slot).status().processes


@pytest.fixture
def make(tmp_path):
    hosts = []

    def one(**settings):
        hosts.append(Host(tmp_path, **settings))
        hosts[-1].begin()
        return hosts[-1]

    yield one
    for host in hosts:
        host.end()


def test_one_after_another_and_no_request_lost(make):
    host = make()
    host.use("first")
    logs = host.layout.logs
    assert host.serves() == "first"
    before = host.server()
    with load(host.url, KEY, "any", clients=1, stub_seconds=0.2) as clients:
        for name, hold in (("second", False), ("third", True), ("fourth", False)):
            time.sleep(0.3)
            assert host.use(name, hold=hold) is None
            assert host.serves() == name
        assert host.use("broken", "dies") == {"displaced": "", "problem": ""}
        assert host.use("broken", "dies", hold=True)["displaced"] == "fourth of r1"
        assert host.serves() == "fourth"
    assert clients.failures == []
    assert {"first", "second", "third", "fourth", "stream"} == set(clients.answered)
    assert host.server() not in (0, before)
    assert "told to die" in (logs / "candidate.log").read_text()
    assert (logs / "server.log").read_text().startswith("listening")
    assert (logs / "server.log").stat().st_mode & 0o077 == 0


def test_a_switch_whose_command_line_is_killed_is_undone(make):
    host = make()
    host.use("first")
    pid = host.server()
    with host.switching("second") as (link, _, details):
        link.ask("launch", **details)
        with host.link() as other, pytest.raises(UsageError, match="another bundlectl"):
            other.ask("begin")
    until(lambda: len(list(host.layout.run.glob("server-2.json"))) == 0)
    assert host.serves() == "first"
    with host.switching("second") as (link, _, details):
        link.ask("hold")
        assert host.status()["state"] == "held"
    assert host.serves() == "first"  # held until the first one serves again
    assert host.server() != pid


def test_a_keeper_with_nothing_to_keep_leaves(make):
    host = make()
    host.status()  # who only looks does no harm
    assert host.use("broken", "dies") == {"displaced": "", "problem": ""}
    host.thread.join(20)
    assert not host.thread.is_alive()


def test_a_keeper_that_was_never_told_anything_leaves(make, monkeypatch):
    monkeypatch.setattr(Keeper, "unused", 0.5)
    host = make()
    host.thread.join(20)
    assert not host.thread.is_alive()


def test_a_killed_server_is_started_again(make):
    host = make()
    host.use("first")
    pid = host.server()
    os.kill(pid, signal.SIGKILL)
    until(lambda: host.serves() == 503)
    until(lambda: host.serves() == "first")
    status = host.status()
    assert status["restarts"] == 1
    assert "killed by SIGKILL" in status["failure"]["why"]
    assert host.server() not in (0, pid)
    assert host.use("second") is None
    assert host.serves() == "second"


@pytest.mark.parametrize(
    ("mode", "settings", "why"),
    [
        ("silent", {"health_timeout": 1}, "did not answer /health for 1 s"),
        ("engine-dies", {}, "its engine died"),
    ],
)
def test_a_server_that_hangs_is_started_again(make, monkeypatch, mode, settings, why):
    for pause in ("_ASK", "_GRACE"):
        monkeypatch.setattr(served, pause, 0.5)
    host = make(**settings)
    host.use("first", mode)
    pid = host.server()
    until(lambda: host.server() not in (0, pid), 60)
    assert why in host.status()["failure"]["why"]


def test_a_server_that_fails_too_often_is_left_alone(make):
    host = make()
    host.backoff = None
    host.end()
    host.backoff = lambda: Backoff(most=1)
    host.begin()
    host.use("first")
    os.kill(host.server(), signal.SIGKILL)
    until(lambda: host.server() and host.serves() == "first")
    os.kill(host.server(), signal.SIGKILL)
    until(lambda: host.status()["gave_up"])
    assert host.serves() == 503
    assert any("not started again" in line for line in host.told)
    # Until somebody says so.
    assert host.use("second") is None
    assert host.serves() == "second"
    assert host.status()["gave_up"] is False


def test_what_does_not_come_back_at_once_is_tried_again(make):
    host = make()
    host.use("first")
    host.mode_file.write_text("stub: chat-500\n")
    undone = host.use("broken", "dies", hold=True)
    assert undone["displaced"] == "first of r1"
    assert "HTTP 500" in undone["problem"]
    status = host.status()
    assert (status["serves"], status["state"]) == (False, "closed")
    until(lambda: "HTTP 500" in str(host.status()["failure"]))
    host.mode_file.unlink()
    until(lambda: host.serves() == "first")


def test_an_end_waits_for_requests_and_takes_no_new_one(make):
    host = make()
    host.use("first")
    with load(host.url, KEY, "any", clients=1, stub_seconds=2) as clients:
        until(lambda: host.status()["requests"] == 3)
        asked = threading.Thread(target=stop, args=(host,))
        asked.start()
        until(lambda: host.serves() == 503)
        clients.end()
    asked.join(20)
    assert clients.failures == []
    assert clients.total == 3
    with pytest.raises(OSError, match="refused"):
        host.serves()


def test_an_end_can_be_hurried(make):
    host = make()
    host.use("first")
    with load(host.url, KEY, "any", clients=1, stub_seconds=60) as clients:
        until(lambda: host.status()["requests"] == 3)
        asked = threading.Thread(target=stop, args=(host,))
        asked.start()
        until(lambda: host.serves() == 503)
        clients.end()
        begun = time.monotonic()
        with host.link() as link:
            link.ask("hurry")
        asked.join(20)
    assert time.monotonic() - begun < 15
    assert len(clients.failures) == 3


def stop(host):
    with host.link() as link:
        link.ask("stop")


def test_an_end_after_somebody_has_removed_the_folders(make):
    host = make()
    host.use("first")
    pid = host.server()
    link = Link(host.path)  # while there is a socket to reach
    shutil.rmtree(host.layout.prefix)
    link.ask("stop")
    link.close()
    host.thread.join(20)
    assert not host.thread.is_alive()
    assert procfs.read(pid) is None
    host.layout.create()


def test_servers_of_a_killed_keeper_are_ended_by_the_next_one(make):
    host = make()
    host.end()
    left = Supervisor(host.layout, "server-2")
    words = [sys.executable, STUB, "--uds", "server-2.sock", "--served-model-name", "left"]
    left.start(words, {"VLLM_API_KEY": KEY}, Service("127.0.0.1", 1, "left", "r1"))
    host.begin()
    assert not left.alive()


def test_new_settings_move_the_front(make):
    host = make()
    host.use("first")
    old, host.settings = host.settings, dataclasses.replace(host.settings, port=free_port())
    host.use("second")
    assert host.serves() == "second"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old.port))


def test_a_taken_port_is_told_and_changes_nothing(make):
    host = make()
    host.use("first")
    with socket.create_server(("127.0.0.1", 0)) as other, host.link() as link:
        wrong = dataclasses.replace(host.settings, port=other.getsockname()[1])
        with pytest.raises(TargetError, match="Address already in use"):
            link.ask("configure", settings=to_data(settings_of(wrong)))
    assert host.serves() == "first"


def test_a_log_is_rotated_while_the_server_writes_and_no_line_is_lost(make):
    host = make(log_size=1, log_count=5)
    host.use("first", "talks")
    logs = host.layout.logs
    last = f"line {stub_vllm.TALK - 1:>60}\n"

    def ended():
        with contextlib.suppress(FileNotFoundError):  # between two files
            return (logs / "server.log").read_text().endswith(last)

    until(ended, 60)
    files = sorted(logs.glob("server.log*"), reverse=True)
    assert len(files) == 3
    assert all(path.stat().st_size <= 1 << 20 for path in files)
    text = "".join(path.read_text() for path in files)
    numbers = [int(line.split()[1]) for line in text.splitlines() if line.startswith("line ")]
    assert numbers == list(range(stub_vllm.TALK))


def test_who_talks_nonsense_is_told(make):
    host = make()
    with host.link() as link:
        with pytest.raises(UsageError, match="does not know 'dance'"):
            link.ask("dance")
        with pytest.raises(UsageError, match="has begun no switch"):
            link.ask("swap")
