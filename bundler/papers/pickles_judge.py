"""What a file of a model would run when it is loaded.

Pickles: https://docs.python.org/3/library/pickle.html, https://huggingface.co/docs/hub/security-pickle.
The one place that knows picklescan, which reads a pickle's instructions and runs none of them.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from picklescan import scanner

from manifests.risks import is_pickle
from manifests.vulns_report import ODD, RUNS, UNALLOWED, UNJUDGED

#: What no loader runs: tensors as they are, and texts.
_HARMLESS = {".safetensors", ".json", ".jsonl", ".txt"}
#: How a pickle, and a container of pickles, starts: protocol 2 and later (pickletools, PROTO), zip,
#: numpy's arrays, 7z.
_STARTS = (b"\x80", b"PK\x03\x04", b"\x93NUMPY", b"7z\xbc\xaf\x27\x1c")
#: Suffixes that loaders take for pickles, beside those that `create` asks --allow-pickle for.
_LOADED = {".dat", ".data", ".joblib", ".npy", ".npz"}
_START, _TEXT = 8, 1 << 16  # bytes
#: How picklescan starts what it says of pickles that it reads to their end: what they call, and
#: that they are not in torch's own container. Its own words, before names of files are put in.
_OTHER_WORDS = ("%s: %s import '", "WARNING: Invalid PyTorch magic number")


@dataclass(frozen=True)
class Judgement:
    """How bad a file is."""

    level: str = ""  # empty: nothing to tell
    why: str = ""  # as a Finding has it
    summary: str = ""
    read: bool = True  # False: it could not be read as a pickle


def harmless(path: str) -> bool:
    """Whether a file is of a kind that no loader runs."""
    return PurePosixPath(path).suffix.lower() in _HARMLESS


def may_run(path: str, handle: IO[bytes]) -> bool:
    """Whether a loader may take a file for a pickle: by its name, or by how it starts."""
    if harmless(path):
        return False
    start = _start(handle, _START)
    return _has_loader(path) or start.startswith(_STARTS) or not _is_text(handle)


def _has_loader(path: str) -> bool:
    return is_pickle(path) or PurePosixPath(path).suffix.lower() in _LOADED


def _is_text(handle: IO[bytes]) -> bool:
    """Whether a file starts as a text: a README, a template, a list of merges."""
    data = _start(handle, _TEXT)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        # The last letter may be cut in two.
        return len(data) == _TEXT and error.start > _TEXT - 4 and b"\0" not in data
    return b"\0" not in data


def _start(handle: IO[bytes], size: int) -> bytes:
    handle.seek(0)
    data = handle.read(size)
    handle.seek(0)
    return data


def judge(handle: IO[bytes], name: str, allowed: bool) -> Judgement:
    """What a file would run when it is loaded; `allowed` when the bundle was made."""
    said = _Said()
    logger = logging.getLogger("picklescan")
    level = logger.level
    logger.addHandler(said)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        suffix = PurePosixPath(name).suffix.lower()
        result = scanner.scan_bytes(handle, name, suffix)
    except Exception as error:  # a hostile file may make the library fail in any way
        return _unreadable(name, f"{type(error).__name__}: {error}")
    finally:
        logger.removeHandler(said)
        logger.setLevel(level)
        logger.propagate = True
    names = {
        safety: sorted({f"{g.module}.{g.name}" for g in result.globals if g.safety == safety})
        for safety in scanner.SafetyLevel
    }
    if bad := names[scanner.SafetyLevel.Dangerous]:
        return Judgement("critical", RUNS, _some(bad))
    if result.scan_err or said.lines:
        told = "; ".join(said.lines).replace(f"{name}: ", "") or "damaged"
        return _unreadable(name, told)
    if odd := names[scanner.SafetyLevel.Suspicious]:
        return Judgement("medium" if allowed else "high", ODD, _some(odd))
    if allowed or not (result.globals or _has_loader(name)):
        return Judgement()
    return Judgement("high", UNALLOWED)


def _unreadable(name: str, why: str) -> Judgement:
    """A file that can't be judged: bad where a loader takes its name for a pickle."""
    if not _has_loader(name):
        return Judgement(read=False)
    return Judgement("high", UNJUDGED, " ".join(why.split())[:200], read=False)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - 5
    return ", ".join(names[:5]) + (f" (+{rest})" if rest > 0 else "")


class _Said(logging.Handler):
    """What picklescan says of parts that it passes over; it says nothing of that otherwise."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not str(record.msg).startswith(_OTHER_WORDS):
            self.lines.append(record.getMessage().removeprefix("WARNING: "))
