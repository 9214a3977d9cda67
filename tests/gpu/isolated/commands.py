"""Programs that end in time: each gets a limit, and is killed with all that it started."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Characters of a program's output that are kept in a record.
KEPT = 4000


class Failed(Exception):
    """A step that did not show what it should; `record` is what it found all the same."""

    def __init__(self, why: str, record: dict[str, Any] | None = None) -> None:
        super().__init__(why)
        self.record = record or {}


class Clock:
    """Seconds that are left of a step."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float = float("inf")) -> float:
        """At most `most`, and never nothing at all: a program gets its second to fail."""
        return max(1.0, min(most, self._end - time.monotonic()))


@dataclass(frozen=True)
class Done:
    """What came of a program. `code` is None where it ran out of time."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON document that it printed, or nothing."""
        with contextlib.suppress(ValueError):
            value = json.loads(self.out)
            if isinstance(value, dict):
                return value
        return {}

    def record(self) -> dict[str, Any]:
        """As it is kept: the answer, or the words."""
        said = {"answer": self.answer} if self.answer else {"out": self.out[-KEPT:]}
        return {"code": self.code, "seconds": self.seconds, **said, "err": self.err[-KEPT:]}


def run(
    words: Sequence[object],
    limit: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Done:
    """Run a program for at most `limit` seconds, then kill its process group.

    What it puts into sessions of their own (a keeper, a server) is left alone: `stop` ends those.
    """
    begun = time.monotonic()
    with subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=env,
        cwd=cwd,
        process_group=0,
    ) as process:
        code: int | None
        try:
            out, err = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            out, err = drained(process)
            code = None
    return Done(code, out, err, round(time.monotonic() - begun, 2))


def drained(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a killed program had said; a child that holds its pipe is not waited for."""
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired as error:
        texts = [part or b"" for part in (error.stdout, error.stderr)]
        out, err = (t.decode(errors="replace") if isinstance(t, bytes) else t for t in texts)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        return out, err


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def need(done: Done, what: str) -> Done:
    """Raises Failed where a program did not succeed."""
    if done.code != 0:
        how = "ran out of time" if done.code is None else f"ended with {done.code}"
        raise Failed(f"{what} {how}", done.record())
    return done
