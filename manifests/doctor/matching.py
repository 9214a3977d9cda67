"""Which rules a log speaks of, and where."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from manifests.doctor.logfile import Log
from manifests.doctor.rules import Rule

#: Lines before and after a message that `near` and `absent` look at: a chained traceback's length.
AROUND = 80
#: Places of one pattern that are looked at; a message in a loop says nothing new.
_MOST = 500
#: What every start of a vLLM server says once, in releases before and after 0.8.
_START = re.compile(r"non-default args: |vLLM API server version .*\n?.*args: Namespace\(")
_STARTED = re.compile(r"Application startup complete")
#: An orderly stop: what is said after it, of 0.19 and of 0.32, is no trouble.
_STOPPING = re.compile(
    r"^(?:INFO: +)?Shutting down|Shutdown initiated \(timeout=|received signal=SIG(?:TERM|INT)"
    r"|\[shutdown\] API server: shutdown triggered",
    re.MULTILINE,
)
_ALARMS = ("ERROR", "CRITICAL")
_TROUBLE = re.compile(
    r"^Traceback \(most recent call last\)|Error: |Error$|Exception: |Exception$"
    r"|\bFATAL\b|: error: |core dumped|[Ss]egmentation fault|^Killed$"
    r"|Fatal Python error|terminate called",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Match:
    """A rule and the places in a log that speak of it."""

    rule: Rule
    log: str
    line: int  # number in the file of the first place
    text: str  # that line
    count: int
    values: Mapping[str, str]
    specificity: int  # characters of the expression: of two on one line the longer knows more
    earlier: bool = False  # an earlier start of the server, which has come up since


class Reader:
    """A log that is being looked at."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._starts = [0, *accumulate(len(line) + 1 for line in log.lines)]
        starts = [found.start() for found in _START.finditer(log.text)]
        self._start_places = starts
        self._up_places = [found.start() for found in _STARTED.finditer(log.text)]
        self._last_start = starts[-1] if starts else 0

    @property
    def started(self) -> bool:
        """Whether the last start came up."""
        return _STARTED.search(self.log.text, self._last_start) is not None

    def trouble(self) -> tuple[str, ...]:
        """Lines of the last start that speak of some error, before the server was told to stop."""
        text, end = self.log.text, len(self.log.text)
        if self.started and (stop := _STOPPING.search(text, self._last_start)):
            end = stop.start()
        first, last = self._index(self._last_start), self._index(end)
        alarms = [n for n in range(first, last + 1) if self.log.levels[n] in _ALARMS]
        places = (found.start() for found in _TROUBLE.finditer(text, self._last_start, end))
        told = [n for n in map(self._index, places) if self.log.levels[n] in (*_ALARMS, "")]
        return tuple(dict.fromkeys(self.log.lines[n] for n in told or alarms))

    def matches(self, rules: Iterable[Rule]) -> tuple[Match, ...]:
        """The rules that this log speaks of."""
        found = (self._match(rule) for rule in rules)
        return tuple(match for match in found if match is not None)

    def _match(self, rule: Rule) -> Match | None:
        places = sorted(
            (found.start(), -len(pattern.pattern), _named(found))
            for pattern in rule.expressions
            for found in self._places(rule, pattern)
        )
        if not places:
            return None
        now = [place for place in places if place[0] >= self._last_start]
        start, length, named = (now or places)[0]
        index = self._index(start)
        values = {key: text for *_, pairs in reversed(now or places) for key, text in pairs}
        return Match(
            rule,
            self.log.name,
            self.log.number(index),
            self.log.lines[index],
            len({self._index(place) for place, *_ in now or places}),
            values | dict(named),
            -length,
            earlier=not now and self.started,
        )

    def _places(self, rule: Rule, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for number, found in enumerate(pattern.finditer(self.log.text)):
            if number == _MOST:
                return
            if self._fits(rule, found.start()):
                yield found

    def _fits(self, rule: Rule, place: int) -> bool:
        if rule.phase and rule.phase != self._phase(place):
            return False
        index = self._index(place)
        if not rule.near and not rule.absent:
            return True
        around = "\n".join(self.log.lines[max(0, index - AROUND) : index + AROUND + 1])
        return all(re.search(one, around, re.MULTILINE) for one in rule.near) and not any(
            re.search(one, around, re.MULTILINE) for one in rule.absent
        )

    def _phase(self, place: int) -> str:
        start, up = (
            bisect_right(places, place) for places in (self._start_places, self._up_places)
        )
        began = self._start_places[start - 1] if start else 0
        return "run" if up and self._up_places[up - 1] >= began else "start"

    def _index(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1


def _named(found: re.Match[str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, text) for key, text in found.groupdict().items() if text is not None)
