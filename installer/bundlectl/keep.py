"""The keeper: in the foreground, or as `python -m bundlectl.keep PREFIX RELEASE [INSTANCE]`."""

import asyncio
import contextlib
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from bundlectl import locks
from bundlectl.keeper import Keeper
from bundlectl.layout import Layout
from bundlectl.notify import READY, STOPPING, notify
from bundlectl.process import KEEPER, Service, Supervisor
from bundlectl.served import Sink
from manifests.errors import BundleError, ServerError, from_oserror
from manifests.exitcodes import ExitCode

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def attend(
    layout: Layout, release: str, sink: Sink, work: Callable[[], object] | None = None
) -> int:
    """Be the keeper of an installation until it is told to end; gives the exit status.

    `work` puts a server into service, by the keeper's own socket, in a thread; what it raises ends
    the keeper and is raised. `sink` gets what servers write, and then what the keeper says
    too. Raises ServerError where the server failed too often, or the keeper by a defect of its own;
    UsageError where another keeper is at work; FilesystemError.
    """
    lock, busy = layout.run / "keeping.lock", "the server runs already"
    with locks.held(lock, busy, "run: bundlectl restart, or: bundlectl stop"):
        _allow_many_connections()
        Supervisor(layout, KEEPER).enrol(Service("", 0, "", release))
        tell = _tell if work is None else lambda text: sink(_stamped(text).encode())
        try:
            return asyncio.run(_Life(layout, release, tell, sink).live(work))
        except BundleError:
            raise
        except OSError as error:
            raise from_oserror(error, "keeping the server") from error
        except Exception as error:
            tell("".join(traceback.format_exception(error)))
            # Python's own status would be that of altered files.
            raise ServerError(
                f"the keeper failed: {type(error).__name__}",
                why="it is a defect of bundlectl's own; the lines above tell where",
                mend="run: bundlectl start; and tell its makers: bundlectl support",
            ) from error


class _Life:
    """One run of the keeper, and the signals that end it."""

    def __init__(
        self, layout: Layout, release: str, tell: Callable[[str], object], sink: Sink
    ) -> None:
        self._keeper = Keeper(layout, release, tell, sink)
        self._asked: list[signal.Signals] = []

    async def live(self, work: Callable[[], object] | None) -> int:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        life = asyncio.create_task(self._keeper.run(attended=work is not None))
        if work is not None:
            await self._work(work, life)
        notify(READY)
        if work is not None:
            await self._until_given_up(life)
        await life
        return ExitCode.INTERRUPTED if self._asked[:1] == [signal.SIGINT] else ExitCode.OK

    def _end(self, number: signal.Signals) -> None:
        self._asked.append(number)
        notify(STOPPING)
        self._keeper.end()

    async def _work(self, work: Callable[[], object], life: "asyncio.Task[None]") -> None:
        try:
            await asyncio.to_thread(work)
        except BaseException:
            self._keeper.end()
            await life
            if self._asked:
                raise KeyboardInterrupt(self._asked[0]) from None
            raise

    async def _until_given_up(self, life: "asyncio.Task[None]") -> None:
        """In the foreground, whoever started us decides what follows so many failures."""
        guard = self._keeper.guard
        given_up = asyncio.create_task(guard.gave_up.wait())
        await asyncio.wait((life, given_up), return_when=asyncio.FIRST_COMPLETED)
        given_up.cancel()
        if guard.gave_up.is_set():
            self._keeper.end()
            await life
            raise ServerError(
                "the server failed again and again, and is not started any more",
                why=guard.last.why if guard.last else "",
                mend="read its log: bundlectl logs; then run: bundlectl start",
            )


def _allow_many_connections() -> None:
    """A request takes two files, and by default a process may have 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):  # keeper.log, and its disk may be full
        sys.stderr.write(_stamped(text))
        sys.stderr.flush()


def _stamped(text: str) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n"


def main() -> int:
    """Be a keeper in the background."""
    prefix, release, *instance = sys.argv[1:]
    try:
        return attend(Layout(Path(prefix), *instance), release, len)
    except BundleError as error:
        _tell(error.render())
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
