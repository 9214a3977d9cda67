"""Pass on what servers say to our own output, and never wait for whoever reads that."""

import contextlib
import os
import queue
import threading

_WAITING = 64  # pieces, as they were read: 4 MiB at most
_LAST = 1.0  # seconds in which what still waits may be read


class Outlet:
    """Writes to an open file in a thread of its own; a reader that is slow or gone costs lines."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._lost = 0  # bytes
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Hand over a piece; never waits. For one thread alone."""
        try:
            if self._lost:
                told = f"\n[{self._lost} bytes are left out here: nobody read them; see the log]\n"
                self._pieces.put_nowait(told.encode())
                self._lost = 0
            self._pieces.put_nowait(data)
        except queue.Full:
            self._lost += len(data)

    def close(self) -> None:
        """Write what waits, if that is soon done."""
        with contextlib.suppress(queue.Full):
            self._pieces.put(None, timeout=_LAST)
            self._thread.join(_LAST)

    def _run(self) -> None:
        while (data := self._pieces.get()) is not None:
            left = memoryview(data)
            with contextlib.suppress(OSError):  # whoever read it has left
                while left:
                    left = left[os.write(self._handle, left) :]
