"""Start a server again whenever it has died or hangs, until that has failed too often."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from bundlectl.backoff import Backoff
from bundlectl.layout import Layout
from bundlectl.process import put_in_service
from bundlectl.route import Route
from bundlectl.served import Server
from manifests.errors import BundleError

_FAILED = "the server has failed and is being restarted"
_PAUSE = 5.0  # seconds after which a look that failed is repeated


@dataclass(frozen=True)
class Failure:
    """When a server failed, and how."""

    when: int  # seconds since the epoch
    why: str


class Guard:
    """Watches one server at a time; while that one does not serve, the route is closed."""

    def __init__(
        self,
        layout: Layout,
        route: Route,
        tell: Callable[[str], object],
        backoff: Callable[[], Backoff],
    ) -> None:
        self._layout = layout
        self._route = route
        self._tell = tell
        self._new_backoff = backoff
        self._task: asyncio.Task[None] | None = None
        self.restarts = 0
        self.last: Failure | None = None
        self.gave_up = asyncio.Event()

    def watch(self, server: Server, health_timeout: float, why: str = "") -> None:
        """Watch a server from now on; with `why`, it has failed already and is started again.

        See Server.illness for `health_timeout`.
        """
        assert self._task is None
        self.gave_up.clear()
        self._task = asyncio.create_task(self._watch(server, health_timeout, why))

    async def leave(self) -> None:
        """Watch no longer; a restart under way is given up."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def revive(self, server: Server) -> str:
        """Start a server that was in service again, and send requests to it once it answers.

        Gives what is in the way, if anything is; nothing of it is left then that can be ended.
        """
        try:
            await server.stop(0)
            await server.start()
            await server.prove()
            put_in_service(self._layout, server.slot)
        except (BundleError, OSError) as error:
            self._route.close(_FAILED)
            await self._end(server)
            return _reason(error)
        self._route.open(server.target)
        return ""

    async def _watch(self, server: Server, health_timeout: float, why: str) -> None:
        backoff = self._new_backoff()
        served = 0.0
        while True:
            if not why:
                begun = time.monotonic()
                why = await self._illness(server, health_timeout)
                served = time.monotonic() - begun
            self._route.close(_FAILED)
            while why:
                self.last = Failure(int(time.time()), why)
                self._say(server, why)
                delay = backoff.failed(served)
                await self._end(server)
                if delay is None:
                    self._give_up(server)
                    return
                await asyncio.sleep(delay)
                why, served = await self.revive(server), 0.0
            self.restarts += 1
            self._say(server, "it serves again")

    async def _illness(self, server: Server, health_timeout: float) -> str:
        """Server.illness; where that can't be told at the moment, look again."""
        told = ""
        while True:
            try:
                return await server.illness(health_timeout)
            except (BundleError, OSError) as error:
                if (reason := _reason(error)) != told:
                    self._say(server, f"its state is unknown: {reason}")
                told = reason
                await asyncio.sleep(_PAUSE)

    async def _end(self, server: Server) -> None:
        """End it as far as possible; a start after that says whether it was."""
        try:
            await server.stop(0)
        except (BundleError, OSError) as error:
            self._say(server, _reason(error))

    def _say(self, server: Server, text: str) -> None:
        with contextlib.suppress(OSError):  # whoever listens may have left
            self._tell(f"{server.name}: {text}")

    def _give_up(self, server: Server) -> None:
        self._say(server, "it is not started again, for it failed too often")
        self._route.close("the server has failed too often; see: bundlectl status")
        self.gave_up.set()


def _reason(error: BundleError | OSError) -> str:
    return error.what if isinstance(error, BundleError) else error.strerror or str(error)
