"""How many connections there may be at a time, and which one makes room for another."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator

#: Beside the connections: those that are just being accepted, refused or closed, and what else a
#: keeper opens: logs, pipes, command lines, /proc.
_OWN_FILES = 128
_FILES = 2  # of a connection: the client's and the server's
_MOST = 16_384  # connections; where files are without bound, memory is not
_LEAVING = 32  # connections that may be on their way out beside those that may be there


def most_connections() -> int:
    """As many connections as this process has files for; at least one."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(1, min(_MOST, (files - _OWN_FILES) // _FILES))


class Place:
    """That of a connection without a request, which another one may take."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self.taken = False

    def take(self) -> None:
        """Let the wait end. A request that has come in the same moment can't be worked on."""
        self.taken = True
        self._timeout.reschedule(0)


class Crowd:
    """The connections there are."""

    def __init__(self) -> None:
        self.most = most_connections()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: dict[Place, None] = {}  # the one that is idle the longest first

    def join(self) -> bool:
        """Count the running task's connection until that task ends; False where none may come.

        Where there are as many as may be, the one that was idle the longest leaves for it.
        """
        count = len(self._tasks)
        if count >= self.most:
            if not self._idle or count >= self.most + _LEAVING:
                return False
            longest = next(iter(self._idle))
            del self._idle[longest]
            longest.take()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    @contextlib.asynccontextmanager
    async def idle(self, patience: float) -> AsyncIterator[Place]:
        """While a connection has no request.

        Raises TimeoutError after so many seconds, or as soon as its place is taken.
        """
        async with asyncio.timeout(patience) as timeout:
            place = Place(timeout)
            self._idle[place] = None
            try:
                yield place
            finally:
                self._idle.pop(place, None)

    async def disperse(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
