"""What goes wrong during a switch or an end, and leaves a keeper that serves, or that has ended."""

import contextlib
import dataclasses
import fcntl
import threading
import time

import pytest

from bundlectl import process
from bundlectl.backoff import Backoff
from bundlectl.keeper import Keeper, settings_of
from bundlectl.process import Supervisor
from manifests.errors import ServerError, UsageError
from manifests.records import to_data
from tests.support.kept import KEY, free_port, hosts, stop, until
from tests.support.load import load


@pytest.fixture
def make(tmp_path):
    with hosts(tmp_path) as made:
        yield made


@pytest.fixture
def stuck(monkeypatch):
    """Makes a server that can't be ended, as one that hangs in a driver can't."""
    monkeypatch.setattr(process, "_LOCK_PATIENCE", 0.3)

    @contextlib.contextmanager
    def held(host, slot):
        with (host.layout.run / f"{slot}.lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    return held


def aside(host, action=stop):
    """An end, in a thread: it takes as long as requests do."""
    thread = threading.Thread(target=action, args=(host,))
    thread.start()
    return thread


def test_a_failed_switch_leaves_the_front_where_it_was(make):
    host = make(open_paths=("/health",))
    host.use("first")
    was = host.settings
    wanted = host.settings = dataclasses.replace(was, port=free_port(), hold_timeout=1)
    with host.switching("second"):
        host.settings = was
        assert host.serves() == "first"  # meanwhile too
        assert host.status()["listening"] == ["127.0.0.1", was.port]
    for hold in (False, True):
        host.settings = wanted
        assert host.use("broken", "dies", hold=hold)["problem"] == ""
        with pytest.raises(ConnectionRefusedError):
            host.serves()
        host.settings = was
        assert host.serves() == "first"
    host.settings = dataclasses.replace(was, host="0.0.0.0")
    assert host.use("second") is None  # one address is in the way of the other
    assert host.serves() == "second"
    assert host.status()["listening"] == ["0.0.0.0", was.port]


def test_a_candidate_that_does_not_end_spoils_no_return_and_no_later_switch(make, stuck):
    host = make()
    host.use("first")
    with host.switching("second") as (link, place, details):
        link.ask("hold")
        link.ask("launch", **details)
        with stuck(host, place["slot"]):
            assert link.ask("abort") == {"displaced": "first of r1", "problem": ""}
    assert host.serves() == "first"
    assert any("second of r1: another bundlectl" in line for line in host.told)
    Supervisor(host.layout, place["slot"]).stop(0)
    assert host.use("second") is None
    assert host.serves() == "second"


def test_a_candidate_that_does_not_end_does_not_spare_the_others(make, stuck):
    host = make()
    host.use("first")
    with host.switching("second") as (link, place, details):
        link.ask("launch", **details)
        with stuck(host, place["slot"]):
            stop(host)
            host.thread.join(20)
            assert not host.thread.is_alive()
            assert not Supervisor(host.layout, "server-1").status().processes
    Supervisor(host.layout, place["slot"]).stop(0)


def test_a_server_that_does_not_retire_is_told_of(make, stuck):
    host = make()
    host.use("first")
    with stuck(host, "server-1"), pytest.raises(ServerError, match="has not ended"):
        host.use("second")
    assert host.serves() == "second"
    Supervisor(host.layout, "server-1").stop(0)


def test_a_switch_while_the_server_before_still_retires(make):
    host = make()
    host.use("first")
    with load(host.url, KEY, "any", clients=1, stub_seconds=2) as clients:
        until(lambda: host.status()["requests"] == 3)
        clients.end()
        host.use("second", retire=False)
        assert host.use("third") is None
    assert host.serves() == "third"
    assert clients.failures == []
    assert clients.total == 3


def test_hurry_is_heard_while_a_server_retires(make):
    host = make()
    host.use("first")
    with load(host.url, KEY, "any", clients=1, stub_seconds=60) as clients:
        until(lambda: host.status()["requests"] == 3)
        clients.end()
        host.use("second", retire=False)
        asked, begun = aside(host), time.monotonic()
        until(lambda: host.serves() == 503)
        with host.link() as link:
            link.ask("hurry")
        asked.join(20)
    assert time.monotonic() - begun < 15
    assert any("3 requests are cut off" in line for line in host.told)


def test_an_end_while_a_server_returns(make):
    host = make()
    host.use("first")
    with host.switching("second") as (link, _, _):
        link.ask("hold")
        asked = aside(host, lambda _: link.ask("abort"))
        until(host.server)
        stop(host)
        asked.join(20)
        host.thread.join(20)  # which lasts as long as somebody may read an answer
    assert not host.thread.is_alive()
    assert not Supervisor(host.layout).status().processes


def test_what_was_given_up_is_not_tried_again_for_a_failed_switch(make):
    host = make(backoff=lambda: Backoff(most=0))
    host.use("first")
    host.kill()
    until(lambda: host.status()["gave_up"])
    with host.switching("second") as (link, place, _):
        assert place["beside"] is False
        assert link.ask("abort") == {"displaced": "", "problem": ""}
    host.thread.join(20)
    assert not host.thread.is_alive()


def test_a_keeper_that_somebody_talks_to_is_not_an_unused_one(make, monkeypatch):
    monkeypatch.setattr(Keeper, "unused", 0.3)
    host = make()
    with host.link() as link:
        link.ask("status")
        time.sleep(1)
        link.ask("configure", settings=to_data(settings_of(host.settings)))
        with host.link() as other, pytest.raises(UsageError, match="another bundlectl"):
            other.ask("configure", settings=to_data(settings_of(host.settings)))
    host.thread.join(20)
    assert not host.thread.is_alive()
