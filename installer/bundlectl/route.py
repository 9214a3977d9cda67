"""Where requests go at this moment, and how one server takes another's place without losing any."""

import asyncio
import contextlib
from collections.abc import Iterator

from bundlectl.frontrules import Refusal

_RETRY = 5  # seconds that a client is told to wait


class Unserved(Exception):
    """No server takes the request; `refusal` is the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Target:
    """A server that takes requests, by its Unix socket, and those that it works on."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.requests = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def use(self) -> Iterator[str]:
        """The socket for one request, which counts until the block ends."""
        self.requests += 1
        self._idle.clear()
        try:
            yield self.socket
        finally:
            self.requests -= 1
            if not self.requests:
                self._idle.set()

    async def drained(self, patience: float) -> bool:
        """Wait until nothing is worked on; False where that took longer than so many seconds."""
        try:
            async with asyncio.timeout(patience):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


class Route:
    """One target for new requests; or none, and then they wait, or are refused."""

    def __init__(self) -> None:
        self.target: Target | None = None
        self.waiting = 0
        self._refusal: str | None = "the server has not started yet"  # None: requests wait
        self._changed = asyncio.Event()

    def open(self, target: Target) -> None:
        """Send every request from now on to this target, those that wait first."""
        self._set(target, None)

    def hold(self) -> None:
        """Let new requests wait for the next target."""
        self._set(None, None)

    def close(self, why: str) -> None:
        """Refuse new requests, and those that wait."""
        self._set(None, why)

    @property
    def state(self) -> str:
        """For `status`."""
        if self.target is not None:
            return "open"
        return "held" if self._refusal is None else "closed"

    async def choose(self, patience: float) -> Target:
        """The target for one request, after so many seconds of waiting at most.

        Call `use` on it before the next await, or it may be gone. Raises Unserved.
        """
        deadline = asyncio.get_running_loop().time() + patience
        while self.target is None:
            if self._refusal is not None or not patience:
                raise self._unserved()
            self.waiting += 1
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                raise self._unserved() from None
            finally:
                self.waiting -= 1
        return self.target

    def _unserved(self) -> Unserved:
        return Unserved(Refusal(503, self._refusal or "the server is being switched", _RETRY))

    def _set(self, target: Target | None, refusal: str | None) -> None:
        self.target, self._refusal = target, refusal
        self._changed.set()
        self._changed = asyncio.Event()
