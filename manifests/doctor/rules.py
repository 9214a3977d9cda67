"""The table of known failures, and the table of what can be asked of a host."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

from manifests.exitcodes import ExitCode
from manifests.records import from_data

#: The files of rules; each is one topic.
TOPICS = (
    "driver",
    "gpu",
    "memory",
    "compilers",
    "libraries",
    "base",
    "files",
    "system",
    "network",
    "model",
    "arguments",
    "requests",
    "engine",
)


@dataclass(frozen=True)
class Rule:
    r"""One known failure.

    Regular expressions are searched in a log without its decoration, where `^` and `$` are the ends
    of a line and `\n` may be written. Their named groups may stand in `cause` and `mend` as
    {name}.
    """

    id: str
    patterns: tuple[str, ...]  # one is enough; wordings of old and new releases
    cause: str
    mend: str
    source: str  # where this is known from
    exit: str = "server"  # an ExitCode's name, in lower case
    near: tuple[str, ...] = ()  # each has to be in the lines around as well
    absent: tuple[str, ...] = ()  # none of them may be
    phase: str = ""  # "start" or "run": only before, or after, the server has come up
    requires: tuple[str, ...] = ()  # probes; where none of them holds, this is not the cause
    evidence: tuple[str, ...] = ()  # more probes that agree where this is the cause
    masks: tuple[str, ...] = ()  # rules whose messages follow from this one
    consequence: bool = False  # never a cause of its own
    hint: bool = False  # says little by itself, or is seen where nothing is wrong
    cause_zh: str = ""
    mend_zh: str = ""

    @cached_property
    def expressions(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, compiled."""
        return tuple(re.compile(pattern, re.MULTILINE) for pattern in self.patterns)

    @property
    def asks(self) -> tuple[str, ...]:
        """All probes that tell whether this is the cause."""
        return self.requires + self.evidence

    @property
    def exit_code(self) -> ExitCode:
        """The class of this failure."""
        return ExitCode[self.exit.upper()]

    def words(self, values: Mapping[str, str], language: str = "en") -> tuple[str, str]:
        """Cause and mend, with what the log says of this very case."""
        texts = (self.cause, self.mend)
        if language == "zh":
            texts = (self.cause_zh or self.cause, self.mend_zh or self.mend)
        cause, mend = (text.format_map(_Values(values)) for text in texts)
        return cause, mend


class _Values(dict[str, str]):
    """Values of named groups; a wording that does not say one leaves an ellipsis."""

    def __missing__(self, _name: str) -> str:
        return "…"


@dataclass(frozen=True)
class Probe:
    """One thing that can be asked of a host; its name is the statement that holds or does not.

    `lasting` facts do not change by themselves: where such a one does not hold now, it did not when
    the log was written. `common` ones hold on many hosts that are well.
    """

    name: str
    command: str  # with which a person sees the same
    lasting: bool = False
    common: bool = False


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, by topic."""
    return tuple(
        from_data(Rule, data, f"{topic}.toml: rule {number}")
        for topic in TOPICS
        for number, data in enumerate(_load(topic)["rules"], 1)
    )


@cache
def probes() -> dict[str, Probe]:
    """All probes by name."""
    loaded = (from_data(Probe, data, "probes.toml") for data in _load("probes")["probes"])
    return {probe.name: probe for probe in loaded}


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("manifests.doctor") / f"{name}.toml").read_text("utf-8"))
