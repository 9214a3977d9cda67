"""What a person or a machine sees, the same way on both sides. Only command lines use this.

On a terminal: a bar with bytes and ETA for everything long (tqdm, where it is installed).
Elsewhere: one line per stage. With --quiet: nothing but the result. With --json: one JSON document
at the end. Narration goes to standard error and results to standard output, so that these can be
piped.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from manifests.errors import BundleError
from manifests.exitcodes import ExitCode

Progress = Callable[[int], None]


def ignore_progress(_count: int) -> None:
    """The progress of somebody who does not watch."""


@dataclass(frozen=True)
class Console:
    """How this run speaks."""

    quiet: bool = False
    json: bool = False

    @property
    def silent(self) -> bool:
        """Whether narration is unwanted."""
        return self.quiet or self.json

    def say(self, text: str) -> None:
        """One line of narration."""
        if not self.silent:
            print(text, file=sys.stderr, flush=True)

    def result(self, record: dict[str, Any], text: str) -> None:
        """The result: for a machine or for a person."""
        if self.json:
            print(json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False), flush=True)
        elif text:
            print(text, flush=True)

    def fail(self, error: BundleError) -> int:
        """Tell an error; gives the exit status.

        What went wrong while a signal was ending the run is the signal's doing, and told as that.
        """
        if _follows_interrupt(error):
            return self.interrupted()
        if self.json:
            self.result(error.as_record(), "")
        else:
            print(error.render(), file=sys.stderr, flush=True)
        return int(error.exit_code)

    def interrupted(self) -> int:
        """Tell that a signal ended the run; gives the exit status."""
        code = ExitCode.INTERRUPTED
        if self.json:
            self.result({"error": code.meaning, "exit_code": int(code)}, "")
        else:
            print(f"\n{code.meaning}", file=sys.stderr, flush=True)
        return int(code)

    @contextmanager
    def stage(self, title: str, total: int = 0, unit: str = "B") -> Iterator[Progress]:
        """A long step; gives the function that counts what is done. `total` 0: not known."""
        started = time.monotonic()
        bar = None if self.silent or not sys.stderr.isatty() else _bar(title, total, unit)
        try:
            yield ignore_progress if bar is None else _advance(bar)
        finally:
            if bar is not None:
                bar.close()
        self.say(f"  {title} ({time.monotonic() - started:.1f} s)")


def _follows_interrupt(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _bar(title: str, total: int, unit: str) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    plain = bool(os.environ.get("NO_COLOR"))
    return tqdm(
        total=total or None,
        desc=f"  {title}",
        unit=unit,
        unit_scale=unit == "B",
        leave=False,
        ascii=plain or None,
        file=sys.stderr,
    )


def _advance(bar: Any) -> Progress:
    def advance(count: int) -> None:
        bar.update(count)

    return advance


def size(count: int) -> str:
    """Bytes for people, in decimal units, as media and disks are sold."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"
