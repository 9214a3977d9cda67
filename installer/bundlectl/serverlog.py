"""What a server's log gives away: that its engine is dead, and the lines that say why."""

import re
from collections.abc import Iterable
from pathlib import Path

#: vLLM's words for an engine that never came up, or died before its first answer; its processes may
#: hang for ever after them. EngineDeadError also ends a healthy stop, and once others get to the
#: server they can bring any words into its log: then they are a reason to ask, and no proof.
_FATAL = re.compile(
    rb"EngineCore failed to start|Engine core initialization failed|EngineDeadError"
)
_TELLING = re.compile(
    r"\w*(?:Error|Exception)\b|\bERROR\b|\bCRITICAL\b|error: |[Kk]illed|Fatal Python"
)
_TOKENS = re.compile(r"\bhf_\w{8,}|\bsk-[\w-]{8,}|(?i:bearer) +\S+|(?<=://)[^/@\s]+(?=@)")
_TAIL = 256 << 10  # bytes of the log's end that are searched for telling lines
_MOST_LINES = 10
_LONGEST_LINE = 300  # characters


class Words:
    """Looks for the words of a dead engine in a log that comes in pieces."""

    def __init__(self) -> None:
        self.found = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Look at the next piece."""
        text = self._rest + data
        self._rest = text[-64:]  # the words may arrive in two pieces
        self.found |= _FATAL.search(text) is not None


class Watch:
    """Reads a growing log once, looking for the words of a dead engine."""

    def __init__(self, path: Path, new: bool = True) -> None:
        """`new`: whether the log began with what is watched; only what follows counts otherwise."""
        self._path = path
        self._offset = 0 if new or not path.exists() else path.stat().st_size
        self._words = Words()

    def engine_failed(self) -> bool:
        """Whether what was written up to now says so."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                data = log.read()
        except OSError:
            return self._words.found
        self._offset += len(data)
        self._words.feed(data)
        return self._words.found


def telling_lines(path: Path, secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """The last lines that speak of an error, or the last lines at all; secrets removed."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _TAIL))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines
    chosen = list(dict.fromkeys(telling))[-_MOST_LINES:]
    return tuple(redact(line, secrets)[:_LONGEST_LINE] for line in chosen)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the secrets given and without what looks like a token."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[removed]")
    return _TOKENS.sub("[removed]", text)
