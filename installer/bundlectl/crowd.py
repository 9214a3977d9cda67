"""How many connections there may be at a time, and which one makes room for another."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator

_OWN_FILES = 128  # what a keeper needs beside its connections: logs, pipes, command lines, /proc
_FILES = 2  # of a connection: the client's and the server's
_MOST = 16_384  # connections; where files are without bound, memory is not


def most_connections() -> int:
    """As many connections as this process has files for; at least one."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(1, min(_MOST, (files - _OWN_FILES) // _FILES))


class Crowd:
    """The connections there are."""

    def __init__(self) -> None:
        self.most = most_connections()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: dict[object, asyncio.Timeout] = {}  # the one that is idle the longest first

    def join(self) -> bool:
        """Count the running task's connection until that task ends; False where none may come.

        Where there are as many as may be, the one that was idle the longest leaves for it.
        """
        if len(self._tasks) >= self.most:
            if not self._idle:
                return False
            self._idle.pop(next(iter(self._idle))).reschedule(0)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    @contextlib.asynccontextmanager
    async def idle(self, patience: float) -> AsyncIterator[None]:
        """While a connection has no request.

        Raises TimeoutError after so many seconds, or as soon as its place is needed.
        """
        key = object()
        async with asyncio.timeout(patience) as timeout:
            self._idle[key] = timeout
            try:
                yield
            finally:
                self._idle.pop(key, None)

    async def disperse(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
