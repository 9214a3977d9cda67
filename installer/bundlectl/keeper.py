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
from bundlectl.control import PROTOCOL, SOCKET, Answer, Listener
from bundlectl.front import Address, Front
from bundlectl.frontrules import Rules
from bundlectl.guard import Guard
from bundlectl.layout import Layout
from bundlectl.process import SERVER_LOG, SLOTS, Supervisor, put_in_service
from bundlectl.rotation import RotatingLog
from bundlectl.route import Route
from bundlectl.served import Launch, Server, Sink
from bundlectl.sockets import socket_path
from manifests.errors import BundleError, ServerError, UsageError
from manifests.records import from_data, to_data

CANDIDATE_LOG = "candidate.log"
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

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(self.host, self.port)


@dataclass
class _Switch:
    """A change of servers under way, which belongs to one conversation."""

    session: object
    settings: Settings
    slot: str = ""  # once it has begun
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
        self._settings: Settings | None = None  # of what is in service
        self._serving: Server | None = None
        self._switch: _Switch | None = None
        self.guard = Guard(layout, self._route, tell, backoff)
        self._reviving: asyncio.Task[str] | None = None
        self._retiring: asyncio.Task[str] | None = None
        self._hurried = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
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

    async def run(self, *, attended: bool = False) -> None:
        """Listen to command lines until one of them, or `end`, ends it.

        `attended`: whoever calls this ends it where nobody tells it what to serve.
        """
        environment.prepare(self._layout)  # a service may have a /tmp of its own
        for slot in SLOTS:  # of a keeper that was killed
            await asyncio.to_thread(Supervisor(self._layout, slot).stop, _LEFTOVER)
        listener = Listener(self._handle, self._gone)
        await listener.listen(socket_path(self._layout, SOCKET))
        unused = None if attended else asyncio.create_task(self._leave_unused(listener))
        await self._ended.wait()
        if unused is not None:
            unused.cancel()
        await listener.close(_LAST_WORDS)
        assert self._ending is not None
        await self._ending

    async def _leave_unused(self, listener: Listener) -> None:
        """End where whoever started us was killed before it said what for."""
        await asyncio.sleep(self.unused)
        while listener.busy:
            await asyncio.sleep(self.unused)
        if self._settings is None and self._ending is None:
            self.end()

    def end(self) -> None:
        """Begin an orderly end; the second time, one without patience."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._shut_down())
        else:
            self._hurried.set()

    async def _shut_down(self) -> None:
        try:
            self._tell("ends, as it was asked to")
            await self._end_servers()
        finally:  # whatever went wrong, nobody could end us a second time
            await self._front.close()
            self._ended.set()

    async def _end_servers(self) -> None:
        self._route.close("the server is being stopped")
        await self.guard.leave()
        if self._reviving is not None:
            self._reviving.cancel()
        if self._switch is not None:
            for server in filter(None, (self._switch.candidate, self._switch.displaced)):
                await self._end_server(server, 0)
        serving, self._serving = self._serving, None
        if serving is not None:
            await self._drained(serving)
            await self._end_server(serving)
        if self._retiring is not None:
            await asyncio.wait((self._retiring,))

    # What command lines ask for

    async def _handle(self, session: object, request: dict[str, Any]) -> Answer:
        action = self._actions.get(str(request.get("do")))
        if action is None:
            raise UsageError(f"the keeper does not know {request.get('do')!r}")
        return await action(session, request)

    async def _gone(self, session: object) -> None:
        switch = self._switch
        if switch is None or switch.session is not session:
            return
        try:
            if not switch.done:
                await self._abort(switch)
        finally:
            self._switch = None
        if self._serving is None and self._ending is None:
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
        if self._switch is not None or self._ending is not None:
            raise _busy()
        self._switch = _Switch(session, settings)
        await self._front.reserve(settings.address)
        return {}

    async def _do_begin(self, session: object, _request: dict[str, Any]) -> Answer:
        switch = self._own(session)
        if self._retiring is not None:  # it has the slot that the next one gets
            await asyncio.wait((self._retiring,))
            self._own(session)
        serving = self._serving
        if serving is not None and self._route.target is None:  # it has failed
            if self.guard.gave_up.is_set():
                self._serving = None  # for good: nothing is gained by its return
                await self._end_server(serving, 0)
                serving.log.close()
            else:
                await self._displace(switch, serving)
            serving = None
            self._own(session)
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
        if serving is None:
            return {"drained": True}
        self._front.hold_timeout = switch.settings.hold_timeout
        self._route.hold()
        drained = await serving.target.drained(switch.settings.drain_timeout)
        self._own(session)  # an end may have begun
        await self._displace(switch, serving)
        self._own(session)
        self._route.hold()
        return {"drained": drained}

    async def _do_launch(self, session: object, request: dict[str, Any]) -> Answer:
        switch = self._own(session)
        settings = switch.settings
        assert switch.slot
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
        switch = self._own(session)
        assert switch.candidate is not None
        await self._front.listen(switch.settings.address)
        put_in_service(self._layout, switch.candidate.slot)
        await self.guard.leave()
        self._own(session)  # an end may have begun
        old, new, displaced = self._serving, switch.candidate, switch.displaced
        switch.candidate, switch.displaced, switch.done = None, None, True
        self._serving, self._settings = new, switch.settings
        self._apply(switch.settings)
        self._route.open(new.target)  # from here on every request goes to the new one
        for before in filter(None, (old, displaced)):
            before.log.cede()
        new.log.become(self._layout.logs / SERVER_LOG)
        self._watch(new)
        self._tell(f"{new.name} is in service")
        if old is not None:
            self._retiring = asyncio.create_task(self._retire(old))
        return {"requests": 0 if old is None else old.target.requests}

    async def _do_retire(self, _session: object, _request: dict[str, Any]) -> Answer:
        problem = "" if self._retiring is None else await asyncio.shield(self._retiring)
        if problem:
            raise ServerError(
                f"the server before has not ended: {problem}",
                why="requests are answered by the new one all the same",
                mend="look at: dmesg; a reboot ends it for certain",
            )
        return {}

    async def _do_abort(self, session: object, _request: dict[str, Any]) -> Answer:
        switch = self._own(session)
        displaced = switch.displaced
        problem = await self._abort(switch)
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
        if self._switch is not None and self._switch.session is not session:
            raise _busy()
        if self._switch is None or self._switch.done:
            raise UsageError("this conversation has begun no switch")
        return self._switch

    def _apply(self, settings: Settings) -> None:
        self._front.rules = Rules(settings.open_paths)
        self._front.hold_timeout = settings.hold_timeout

    async def _displace(self, switch: _Switch, serving: Server) -> None:
        """Stop what serves, to make room; it is remembered."""
        await self.guard.leave()
        switch.displaced, self._serving = serving, None
        await serving.stop(serving.launch.stop_timeout)

    async def _drained(self, server: Server) -> None:
        """Wait until it has answered what it works on, or time or somebody's patience is over."""
        assert self._settings is not None
        ends = [
            asyncio.create_task(end)
            for end in (
                self._hurried.wait(),
                server.target.drained(self._settings.drain_timeout),
            )
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if server.target.requests:
            self._tell(f"{server.name}: {server.target.requests} requests are cut off")

    async def _end_server(self, server: Server, patience: float | None = None) -> str:
        """Stop a server; what keeps it from ending is told and given, and harms no other one.

        `patience` in seconds: its own, and none where somebody is in a hurry.
        """
        if patience is None:
            patience = 0 if self._hurried.is_set() else server.launch.stop_timeout
        try:
            await server.stop(patience)
        except (BundleError, OSError) as error:
            self._tell(f"{server.name}: {error}")
            return str(error)
        return ""

    async def _retire(self, old: Server) -> str:
        """End a server that gets no more requests, once it has answered those that it has.

        Gives what keeps it from ending.
        """
        await self._drained(old)
        problem = await self._end_server(old)
        old.log.close()
        return problem

    async def _abort(self, switch: _Switch) -> str:
        """Undo a switch; gives what keeps the old server from serving again, if anything does."""
        switch.done = True
        await self._restore_front()
        if switch.candidate is not None:
            await self._end_server(switch.candidate)
            switch.candidate.log.close()
        old = switch.displaced
        if old is None or self._ending is not None:
            return ""
        switch.displaced, self._serving = None, old
        self._reviving = asyncio.create_task(self._revive(old))
        await asyncio.wait((self._reviving,))
        problem = "" if self._reviving.cancelled() else self._reviving.result()
        self._watch(old, problem)
        return problem

    async def _restore_front(self) -> None:
        self._front.release()
        if self._settings is None:
            return
        self._apply(self._settings)
        try:
            await self._front.listen(self._settings.address)
        except (BundleError, OSError) as error:
            self._tell(str(error))

    async def _revive(self, old: Server) -> str:
        try:
            return await self.guard.revive(old)
        except (BundleError, OSError) as error:
            return str(error)

    def _watch(self, server: Server, problem: str = "") -> None:
        assert self._settings is not None
        if self._ending is None:
            self.guard.watch(server, self._settings.health_timeout, problem)


def _busy() -> UsageError:
    return UsageError(
        "another bundlectl is starting, switching or stopping the server",
        mend="wait for it, then run the same command again",
    )


def settings_of(config: Any) -> Settings:
    """What a keeper needs of the settings of serve.toml."""
    names = (field.name for field in dataclasses.fields(Settings))
    return Settings(**{name: getattr(config, name) for name in names})
