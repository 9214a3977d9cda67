"""The keeper: one process that holds the public port and keeps one server behind it in service.

It is told what to serve by command lines (bundlectl.control). It watches the server, starts it
again when it died or hangs, and lets the next one take its place without losing a request.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bundlectl import environment
from bundlectl.backoff import Backoff
from bundlectl.control import PROTOCOL, Answer, Listener
from bundlectl.front import Address, Front
from bundlectl.frontrules import Rules
from bundlectl.guard import Guard
from bundlectl.layout import Layout
from bundlectl.process import SERVER_LOG, SLOTS, Supervisor, put_in_service
from bundlectl.rotation import RotatingLog
from bundlectl.route import Route
from bundlectl.served import Launch, Server, Sink
from bundlectl.sockets import socket_path
from manifests.errors import BundleError, UsageError
from manifests.records import from_data, to_data

CANDIDATE_LOG = "candidate.log"
SOCKET = "keeper"
_MIB = 1 << 20
_LAST_WORDS = 2.0  # seconds in which a command line may read our last answer
_LEFTOVER = 5.0  # seconds that servers of an earlier keeper get to end


@dataclass(frozen=True)
class Settings:
    """What serve.toml says to a keeper; its keys are documented in bundlectl.config."""

    host: str
    port: int
    open_paths: tuple[str, ...]
    hold_timeout: int
    drain_timeout: int
    health_timeout: int
    log_size: int
    log_count: int


@dataclass
class _Switch:
    """A change of servers under way, which belongs to one conversation."""

    session: object
    slot: str = ""
    candidate: Server | None = None
    displaced: Server | None = None  # stopped for the candidate's sake; returns if that fails
    done: bool = False


class Keeper:
    """What serves, what is about to, and what happens when either fails."""

    unused = 120.0  # seconds until a keeper ends that nobody has told anything

    def __init__(
        self,
        layout: Layout,
        release: str,
        tell: Callable[[str], object],
        sink: Sink,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """`release` is whose program this is; `tell` gets our words, `sink` those of servers."""
        self._layout = layout
        self._release = release
        self._tell = tell
        self._sink = sink
        self._route = Route()
        self._front = Front(self._route)
        self._settings: Settings | None = None
        self._serving: Server | None = None
        self._switch: _Switch | None = None
        self.guard = Guard(layout, self._route, tell, backoff)
        self._retiring: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._sponsors: set[object] = set()
        self._ended = asyncio.Event()
        self._actions: dict[str, Callable[[object, dict[str, Any]], Awaitable[Answer]]] = {
            "status": self._do_status,
            "configure": self._do_configure,
            "begin": self._do_begin,
            "hold": self._do_hold,
            "launch": self._do_launch,
            "look": self._do_look,
            "swap": self._do_swap,
            "retire": self._do_retire,
            "abort": self._do_abort,
            "stop": self._do_stop,
            "hurry": self._do_hurry,
        }

    # Its life

    async def run(self) -> None:
        """Listen to command lines until one of them, or `end`, ends it."""
        environment.prepare(self._layout)  # a service may have a /tmp of its own
        for slot in SLOTS:  # of a keeper that was killed
            await asyncio.to_thread(Supervisor(self._layout, slot).stop, _LEFTOVER)
        listener = Listener(self._handle, self._gone)
        await listener.listen(socket_path(self._layout, SOCKET))
        unused = asyncio.get_running_loop().call_later(self.unused, self._end_unused)
        await self._ended.wait()
        unused.cancel()
        await listener.close(_LAST_WORDS)

    def _end_unused(self) -> None:
        """Whoever started us was killed before it said what for."""
        if self._settings is None and self._ending is None:
            self.end()

    def end(self) -> None:
        """Begin an orderly end; the second time, one without patience."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._shut_down())
        else:
            self._hurried.set()

    async def _shut_down(self) -> None:
        self._tell("ends, as it was asked to")
        try:
            await self._end_servers()
        except (BundleError, OSError) as error:
            self._tell(f"not everything ended: {error}")
        await self._front.close()
        self._ended.set()

    async def _end_servers(self) -> None:
        self._route.close("the server is being stopped")
        await self.guard.leave()
        if self._switch is not None and self._switch.candidate is not None:
            await self._switch.candidate.stop(0)
        serving, self._serving = self._serving, None
        if serving is not None and self._settings is not None:
            hurried = asyncio.create_task(self._hurried.wait())
            drained = asyncio.create_task(serving.target.drained(self._settings.drain_timeout))
            await asyncio.wait((hurried, drained), return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            drained.cancel()
            await serving.stop(0 if self._hurried.is_set() else serving.launch.stop_timeout)
        if self._retiring is not None:
            await self._retiring

    # What command lines ask for

    async def _handle(self, session: object, request: dict[str, Any]) -> Answer:
        action = self._actions.get(str(request.get("do")))
        if action is None:
            raise UsageError(f"the keeper does not know {request.get('do')!r}")
        return await action(session, request)

    async def _gone(self, session: object) -> None:
        switch = self._switch
        if switch is not None and switch.session is session:
            if not switch.done:
                await self._abort(switch)
            self._switch = None
        sponsored = session in self._sponsors
        self._sponsors.discard(session)
        idle = self._serving is None and self._switch is None and self._ending is None
        if sponsored and idle:
            self.end()  # what it had in mind to serve did not come up

    async def _do_status(self, _session: object, _request: dict[str, Any]) -> Answer:
        serving, address = self._serving, self._front.address
        return {
            "protocol": PROTOCOL,
            "release": self._release,
            "listening": None if address is None else [address.host, address.port],
            "state": self._route.state,
            "requests": 0 if serving is None else serving.target.requests,
            "waiting": self._route.waiting,
            "slot": None if serving is None else serving.slot,
            "serves": self._route.target is not None,
            "restarts": self.guard.restarts,
            "failure": to_data(self.guard.last),
            "gave_up": self.guard.gave_up.is_set(),
        }

    async def _do_configure(self, session: object, request: dict[str, Any]) -> Answer:
        settings = from_data(Settings, request["settings"])
        self._sponsors.add(session)
        await self._front.listen(Address(settings.host, settings.port))
        self._front.rules = Rules(settings.open_paths)
        self._front.hold_timeout = settings.hold_timeout
        self._settings = settings
        return {}

    async def _do_begin(self, session: object, _request: dict[str, Any]) -> Answer:
        if self._switch is not None or self._ending is not None:
            raise UsageError(
                "another bundlectl is starting, switching or stopping the server",
                mend="wait for it, then run the same command again",
            )
        self._switch = switch = _Switch(session)
        serving = self._serving
        if serving is not None and self._route.target is None:  # it has failed
            await self._displace(switch, serving)
            serving = None
        free = [name for name in SLOTS if serving is None or name != serving.slot]
        switch.slot = free[0]
        log = self._layout.logs / (SERVER_LOG if serving is None else CANDIDATE_LOG)
        return {
            "slot": switch.slot,
            "log": str(log),
            "beside": serving is not None,
        }

    async def _do_hold(self, session: object, _request: dict[str, Any]) -> Answer:
        switch, serving = self._own(session), self._serving
        assert self._settings is not None
        if serving is None:
            return {"drained": True}
        self._route.hold()
        drained = await serving.target.drained(self._settings.drain_timeout)
        await self._displace(switch, serving)
        self._route.hold()
        return {"drained": drained}

    async def _do_launch(self, session: object, request: dict[str, Any]) -> Answer:
        switch, settings = self._own(session), self._settings
        assert settings is not None
        assert switch.candidate is None
        log = RotatingLog(
            self._layout.logs / request["log"], settings.log_size * _MIB, settings.log_count
        )
        launch = from_data(Launch, request["launch"])
        switch.candidate = Server(self._layout, switch.slot, launch, log, self._sink)
        await switch.candidate.start()
        return {}

    async def _do_look(self, session: object, _request: dict[str, Any]) -> Answer:
        candidate = self._own(session).candidate
        return {"alive": candidate is not None and candidate.alive()}

    async def _do_swap(self, session: object, _request: dict[str, Any]) -> Answer:
        switch, old = self._own(session), self._serving
        assert switch.candidate is not None
        put_in_service(self._layout, switch.candidate.slot)
        new, switch.candidate, switch.done = switch.candidate, None, True
        self._serving = new
        self._route.open(new.target)  # from here on every request goes to the new one
        await self.guard.leave()
        for before in filter(None, (old, switch.displaced)):
            before.log.cede()
        new.log.become(self._layout.logs / SERVER_LOG)
        self._watch(new)
        self._tell(f"{new.name} is in service")
        if old is not None:
            self._retiring = asyncio.create_task(self._retire(old))
        return {"requests": 0 if old is None else old.target.requests}

    async def _do_retire(self, _session: object, _request: dict[str, Any]) -> Answer:
        if self._retiring is not None:
            await asyncio.shield(self._retiring)
        return {}

    async def _do_abort(self, session: object, _request: dict[str, Any]) -> Answer:
        switch = self._own(session)
        displaced = switch.displaced
        problem = await self._abort(switch)
        self._switch = None
        return {"displaced": displaced.name if displaced else "", "problem": problem}

    async def _do_stop(self, _session: object, _request: dict[str, Any]) -> Answer:
        if self._ending is None:
            self.end()
        assert self._ending is not None
        await asyncio.shield(self._ending)
        return {}

    async def _do_hurry(self, _session: object, _request: dict[str, Any]) -> Answer:
        self._hurried.set()
        return {}

    # How it is done

    def _own(self, session: object) -> _Switch:
        if self._ending is not None:
            raise UsageError("the server is being stopped", mend="wait, then run: bundlectl start")
        if self._switch is None or self._switch.session is not session or self._switch.done:
            raise UsageError("this conversation has begun no switch")
        return self._switch

    async def _displace(self, switch: _Switch, serving: Server) -> None:
        """Stop what serves, to make room; it is remembered."""
        await self.guard.leave()
        switch.displaced, self._serving = serving, None
        await serving.stop(serving.launch.stop_timeout)

    async def _retire(self, old: Server) -> None:
        """End a server that gets no more requests, once it has answered those that it has."""
        assert self._settings is not None
        if not await old.target.drained(self._settings.drain_timeout):
            self._tell(f"{old.name}: {old.target.requests} requests are cut off")
        await old.stop(old.launch.stop_timeout)
        old.log.close()

    async def _abort(self, switch: _Switch) -> str:
        """Undo a switch; gives what keeps the old server from serving again, if anything does."""
        switch.done = True
        if switch.candidate is not None:
            await switch.candidate.stop(switch.candidate.launch.stop_timeout)
            switch.candidate.log.close()
        old = switch.displaced
        if old is None or self._ending is not None:
            return ""
        self._serving = old
        problem = await self.guard.revive(old)
        self._watch(old, problem)
        return problem

    def _watch(self, server: Server, problem: str = "") -> None:
        assert self._settings is not None
        self.guard.watch(server, self._settings.health_timeout, problem)


def settings_of(config: Any) -> Settings:
    """What a keeper needs of the settings of serve.toml."""
    names = (field.name for field in dataclasses.fields(Settings))
    return Settings(**{name: getattr(config, name) for name in names})
