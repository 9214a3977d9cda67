"""Clients that ask a server again and again, in several ways, and count what went wrong."""

import contextlib
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Load:
    """What the clients have seen."""

    url: str
    key: str
    model: str  # in requests
    details: dict = field(default_factory=dict)  # more of each request
    pause: float = 0.0  # seconds between two requests of a client
    answered: Counter = field(default_factory=Counter)  # by model that answered
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0  # seconds of the slowest answer
    _ended: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """Begin no further request."""
        self._ended.set()

    def plain(self) -> None:
        """Ask on one connection that is kept."""
        with contextlib.closing(self._connection()) as connection:
            while not self._ended.is_set():
                self._count(lambda: self._ask(connection))

    def fresh(self) -> None:
        """Ask on a new connection each time."""
        while not self._ended.is_set():
            with contextlib.closing(self._connection()) as connection:
                self._count(lambda: self._ask(connection))

    def stream(self) -> None:
        """Ask for streams on one connection that is kept."""
        with contextlib.closing(self._connection()) as connection:
            while not self._ended.is_set():
                self._count(lambda: self._ask(connection, stream=True))

    def _connection(self) -> http.client.HTTPConnection:
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=120)
        connection.connect()
        connection.auto_open = 0  # a connection that was closed on us is a failure
        return connection

    def _count(self, ask) -> None:
        begun = time.monotonic()
        try:
            self.answered[ask()] += 1
        except (OSError, http.client.HTTPException, ValueError, AssertionError) as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            self._ended.wait(0.2)
        self.longest = max(self.longest, time.monotonic() - begun)
        self._ended.wait(self.pause)

    def _ask(self, connection, stream=False) -> str:
        body = {"model": self.model, "messages": [], "max_tokens": 16, **self.details}
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        if stream:
            body["stream"] = True
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()  # IncompleteRead where it was cut off
        assert answer.status == 200, f"{answer.status} {data[:200]!r}"
        if not stream:
            return str(json.loads(data)["model"])
        assert data.endswith(b"data: [DONE]\n\n"), data[-100:]
        return "stream"

    @property
    def total(self) -> int:
        return sum(self.answered.values())

    def summary(self) -> str:
        return (
            f"{self.total} answered {dict(self.answered)}, {len(self.failures)} failed, "
            f"longest {self.longest:.1f} s"
        )


@contextlib.contextmanager
def load(
    url: str, key: str, model: str, clients: int = 2, pause: float = 0.0, **details
) -> Iterator[Load]:
    """A load while the block runs, by so many clients of each way."""
    found = Load(url, key, model, details, pause)
    threads = [
        threading.Thread(target=way)
        for way in (found.plain, found.fresh, found.stream)
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.end()
        for thread in threads:
            thread.join()
