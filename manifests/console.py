"""What a person or a machine sees, the same way on both sides. Only command lines use this.

On a terminal: a bar with bytes and ETA for everything long (tqdm, where it is installed).
Elsewhere: one line per stage. With --quiet: nothing but the result. With --json: one JSON document
at the end. Narration goes to standard error and results to standard output, so that these can be
piped.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from manifests.errors import BundleError, FilesystemError, from_oserror
from manifests.exitcodes import ExitCode

Progress = Callable[[int], None]

#: Exit status of a run whose reader has left (`| head`), as shells call death by that signal.
READER_LEFT = 128 + signal.SIGPIPE


class ReaderLeft(BrokenPipeError):
    """Nobody reads the results any more; there is nobody to tell it to, either."""


class Unwritable(FilesystemError):
    """Results can't be written to where standard output goes."""


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
            _whisper(text)

    def result(self, record: dict[str, Any], text: str) -> None:
        """The result: for a machine or for a person.

        Raises ReaderLeft, Unwritable.
        """
        if self.json:
            _tell(_document(record))
        elif text:
            _tell(text)

    def fail(self, error: BundleError) -> int:
        """Tell an error; gives the exit status.

        What went wrong while a signal was ending the run is the signal's doing, and told as that.
        """
        if _follows_interrupt(error):
            return self.interrupted()
        self._end(error.as_record(), error.render(), told=isinstance(error, Unwritable))
        return int(error.exit_code)

    def interrupted(self) -> int:
        """Tell that a signal ended the run; gives the exit status."""
        code = ExitCode.INTERRUPTED
        self._end({"error": code.meaning, "exit_code": int(code)}, f"\n{code.meaning}")
        return int(code)

    def _end(self, record: dict[str, Any], text: str, *, told: bool = False) -> None:
        """The last words of a run; those about standard output itself (`told`) go elsewhere."""
        if self.json and not told:
            try:
                self.result(record, "")
            except Unwritable:
                pass
            else:
                return
        _whisper(text)

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


def open_streams() -> None:
    """Give standard streams that the caller has closed (`2>&-`) to /dev/null.

    Otherwise the next file that is opened gets their number, and what a child or a library says
    gets into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good


def _document(record: dict[str, Any]) -> str:
    """JSON in letters where standard output has them; names that are not UTF-8 as escapes."""
    text = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(record, indent=2, sort_keys=True)
    return text


def _tell(text: str) -> None:
    try:
        print(_printable(text, sys.stdout), flush=True)
    except BrokenPipeError:
        _abandon(sys.stdout)
        raise ReaderLeft from None
    except OSError as error:
        _abandon(sys.stdout)
        told = from_oserror(error, "writing the result", "standard output")
        raise Unwritable(told.what, mend=told.mend) from None


def _whisper(text: str) -> None:
    """Narration and errors; a run does not fail because nobody can hear of it."""
    try:
        print(_printable(text, sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)


def _printable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _abandon(stream: TextIO) -> None:
    """Point a stream that can't be written to /dev/null: Python flushes it once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


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
