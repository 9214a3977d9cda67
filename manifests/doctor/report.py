"""What is told of a sick server: the likeliest cause first, what speaks for it, and the mend."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manifests.doctor.lines import shown
from manifests.doctor.logfile import Log
from manifests.doctor.matching import Match, Reader
from manifests.doctor.ranking import (
    CONFIRMED,
    CONTRADICTED,
    EARLIER,
    FOLLOWS,
    LIKELY,
    POSSIBLE,
    Answer,
    Evidence,
    Ranked,
    rank,
    wanted,
)
from manifests.doctor.rules import Rule, probes, rules
from manifests.exitcodes import ExitCode

#: What is told without --all: more than one cause is seldom true at a time.
_SHOWN = 3
_UNKNOWN_LINES = 10
#: Stands for the installation's folder in mends and commands.
_PREFIX = "PREFIX"
Hide = Callable[[str], str]
#: Answers probes by name; on another machine than the log's it answers none.
Ask = Callable[[Sequence[str]], Mapping[str, Answer]]


def _nobody(_names: Sequence[str]) -> Mapping[str, Answer]:
    return {}


@dataclass(frozen=True)
class Diagnosis:
    """What the logs say, judged."""

    logs: tuple[str, ...]
    findings: tuple[Ranked, ...]
    trouble: tuple[str, ...]  # lines that speak of an error, known or not
    started: bool  # the last start of the first log came up
    notes: tuple[str, ...]
    language: str = "en"
    hide: Hide = str  # takes secrets out of a line of a log
    prefix: str = _PREFIX  # of the installation that mends are about

    @property
    def causes(self) -> tuple[Ranked, ...]:
        """The findings that may be the cause."""
        return tuple(one for one in self.findings if one.standing in (CONFIRMED, LIKELY, POSSIBLE))

    @property
    def known(self) -> bool:
        """Whether a cause was found, and not just what follows from one."""
        return any(not one.match.rule.consequence for one in self.causes)

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Lines that speak of an error whose cause was not found."""
        if self.known:
            return ()
        denied = [one for one in self.findings if one.standing == CONTRADICTED]
        return self.trouble or tuple(self._shown(one) for one in denied if not self.started)

    @property
    def exit_code(self) -> ExitCode:
        """The class of the likeliest cause.

        SERVER where something is wrong that nobody knows. What only may be wrong does not count
        against a server that is up.
        """
        weighty = [one for one in self.causes if one.standing != POSSIBLE]
        if weighty:
            return weighty[0].match.rule.exit_code
        if self.unexplained and not self.causes:
            return ExitCode.SERVER
        if self.causes and not self.started:
            return self.causes[0].match.rule.exit_code
        return ExitCode.OK

    def as_record(self) -> dict[str, Any]:
        """The diagnosis as --json prints it."""
        return {
            "logs": list(self.logs),
            "known": self.known,
            "started": self.started,
            "exit_code": int(self.exit_code),
            "findings": [self._record(one) for one in self.findings],
            "unexplained": list(self.unexplained),
            "notes": list(self.notes),
        }

    def _record(self, one: Ranked) -> dict[str, Any]:
        cause, mend = self._words(one)
        return {
            "id": one.match.rule.id,
            "standing": one.standing,
            "follows": one.follows,
            "cause": cause,
            "mend": mend,
            "source": one.match.rule.source,
            "log": one.match.log,
            "line": one.match.line,
            "text": self._shown(one),
            "count": one.match.count,
            "evidence": [
                {
                    "name": item.probe.name,
                    "holds": item.answer.holds,
                    "found": item.answer.found,
                    "command": self._placed(item.probe.command),
                }
                for item in one.evidence
            ],
        }

    def text(self, *, everything: bool = False) -> str:
        """The diagnosis as a person reads it."""
        causes = self.causes if everything else self.causes[:_SHOWN]
        lines = [line for number, one in enumerate(causes, 1) for line in self._told(number, one)]
        rest = [one for one in self.findings if one not in causes]
        if everything:
            lines += [self._brief(one) for one in rest]
        elif rest:
            lines.append(f"{len(rest)} more that weigh less: --all shows them")
        if self.unexplained:
            lines.append("not known: nothing here explains these lines of the log")
            lines += [f"  | {line}" for line in self.unexplained[-_UNKNOWN_LINES:]]
        elif not self.causes:
            came = "" if self.started else "; they do not show that a server came up, either"
            lines.append(f"nothing known to be wrong in {', '.join(self.logs) or 'no log'}{came}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _told(self, number: int, one: Ranked) -> list[str]:
        match = one.match
        cause, mend = self._words(one)
        times = f", {match.count} times" if match.count > 1 else ""
        return [
            f"{number}. {match.rule.id} ({one.standing}): {cause}",
            f"   log:  {match.log}:{match.line}{times}: {self._shown(one)}",
            *(f"   host: {self._weighed(item)}" for item in one.evidence),
            *self._untold(one),
            f"   mend: {mend}",
            f"   source: {match.rule.source}",
        ]

    def _untold(self, one: Ranked) -> list[str]:
        """What a person can ask the host that wrote the log, where this machine is not it."""
        if one.evidence:
            return []
        commands = (probes()[name].command for name in one.match.rule.asks)
        return [f"   look: {self._placed(command)}" for command in dict.fromkeys(commands)]

    def _brief(self, one: Ranked) -> str:
        reasons = {
            FOLLOWS: f"follows from {one.follows}",
            CONTRADICTED: "; ".join(self._weighed(item) for item in one.evidence if item.denies),
            EARLIER: "in an earlier start; the last one came up",
        }
        why = reasons.get(one.standing, "")
        return (
            f"-  {one.match.rule.id} ({one.standing}{': ' if why else ''}{why}): "
            f"{one.match.log}:{one.match.line}: {self._shown(one)}"
        )

    def _words(self, one: Ranked) -> tuple[str, str]:
        values = {name: shown(self.hide(text)) for name, text in one.match.values.items()}
        cause, mend = one.match.rule.words(values, self.language)
        return cause, self._placed(mend)

    def _placed(self, text: str) -> str:
        return text.replace(_PREFIX, shlex.quote(self.prefix))

    def _weighed(self, item: Evidence) -> str:
        verdict = "agrees" if item.agrees else "does not agree" if item.denies else "does not tell"
        found = item.answer.found or item.probe.name
        return f"{verdict}: {found}  [{self._placed(item.probe.command)}]"

    def _shown(self, one: Ranked) -> str:
        return shown(self.hide(one.match.text))


def diagnose(
    logs: Sequence[Log],
    ask: Ask = _nobody,
    *,
    table: Sequence[Rule] | None = None,
    language: str = "en",
    hide: Hide = str,
    prefix: str = _PREFIX,
) -> Diagnosis:
    """Judge logs, the most telling one first; `ask` answers for the host that wrote them."""
    readers = [Reader(log) for log in logs]
    found: list[Match] = []
    for reader in readers:
        found += reader.matches(rules() if table is None else table)
    ranked = rank(found, ask(wanted(found)))
    trouble = tuple(shown(hide(line)) for reader in readers for line in reader.trouble())
    return Diagnosis(
        tuple(log.name for log in logs),
        ranked,
        trouble,
        bool(readers) and readers[0].started,
        tuple(note for log in logs for note in log.notes),
        language,
        hide,
        prefix,
    )
