"""The keeper with real server processes behind it; command lines talk to it over its socket."""

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import sys
import threading
import time

import pytest

from bundlectl import procfs, served
from bundlectl.backoff import Backoff
from bundlectl.control import Link
from bundlectl.keeper import Keeper, settings_of
from bundlectl.process import Service, Supervisor
from manifests.errors import TargetError, UsageError
from manifests.records import to_data
from tests.support import stub_vllm
from tests.support.kept import KEY, STUB, free_port, hosts, stop, until
from tests.support.load import load


@pytest.fixture
def make(tmp_path):
    with hosts(tmp_path) as made:
        yield made


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
    host.kill()
    until(lambda: host.server() and host.serves() == "first")
    host.kill()
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
