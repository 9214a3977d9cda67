"""A keeper with real server processes behind it, and what command lines ask it."""

import asyncio
import contextlib
import dataclasses
import http.client
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from bundlectl import smoke
from bundlectl.api import at_socket
from bundlectl.backoff import Backoff
from bundlectl.config import ServeConfig
from bundlectl.control import SOCKET, Link, Lost
from bundlectl.keeper import Keeper, settings_of
from bundlectl.layout import Layout
from bundlectl.process import Service, Supervisor
from bundlectl.served import Launch
from bundlectl.sockets import file_name, socket_path
from manifests.errors import BundleError
from manifests.records import to_data
from tests.support import stub_vllm
from tests.support.small import free_port

KEY = "0123456789abcdef0123"
STUB = stub_vllm.__file__


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Host:
    """An installation's folders and its keeper, in a thread."""

    def __init__(self, folder, backoff=lambda: Backoff(most=3, good=60), **settings):
        self.layout = Layout(folder / "prefix")
        self.layout.create()
        plain = ServeConfig(port=free_port(), hold_timeout=30, drain_timeout=30, stop_timeout=5)
        self.settings = dataclasses.replace(plain, **settings)
        self.url = f"http://127.0.0.1:{self.settings.port}"
        self.told = []
        self.mode_file = folder / "README.md"  # what makes the stub fail while it is there
        self.path = socket_path(self.layout, SOCKET)
        self.backoff = backoff

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

    def use(self, name, mode="", hold=False, retire=True):
        """What `bundlectl use` does; without `retire`, one that is killed after the switch."""
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
            if retire:
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

    def kill(self):
        """Kill its server; a signal to process 0 would go to everything here."""
        pid = self.server()
        assert pid, "no server runs"
        os.kill(pid, signal.SIGKILL)

    def end(self):
        with contextlib.suppress(Lost), self.link() as link:
            link.ask("hurry")
            link.ask("stop")
        self.thread.join(20)
        assert not self.thread.is_alive()
        for slot in ("server-1", "server-2"):
            assert not Supervisor(self.layout, slot).status().processes


def stop(host):
    """What `bundlectl stop` does."""
    with host.link() as link:
        link.ask("stop")


@contextlib.contextmanager
def hosts(folder):
    """Makes hosts whose keepers run, and ends those."""
    made = []

    def one(**settings):
        made.append(Host(folder, **settings))
        made[-1].begin()
        return made[-1]

    yield one
    for host in made:
        host.end()
