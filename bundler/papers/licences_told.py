"""What a licence report tells, in words of one language and without a form."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bundler.papers.bill import Component
from bundler.papers.licences import EYES, MORE, OTHER, SAME, Line, Report, SharedText
from bundler.plan.licences import LOOK

#: Digits of a commit or a digest.
_SHORT = 12
#: Characters of what is declared: some declare their licence by its whole text.
_LONGEST = 80


@dataclass(frozen=True)
class Row:
    """One component in words; `texts` are numbers of texts in the report, from 1."""

    name: str  # and version
    used: str
    declared: str
    family: str
    found: str
    agreement: str
    look: bool  # at its family
    texts: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Components that need a person's eye for one reason."""

    title: str
    why: str
    rows: tuple[Row, ...]


def say(language: str, key: str, **values: object) -> str:
    """A sentence or word of a report."""
    return _words()[language][key].format(**values)


def rows(report: Report, language: str) -> tuple[Row, ...]:
    """All components."""
    numbers = _numbers(report)
    return tuple(_row(line, numbers, language) for line in report.lines)


def groups(report: Report, language: str) -> Iterator[Group]:
    """What needs a person's eye, the most urgent first."""
    numbers = _numbers(report)
    for eye in EYES:
        if lines := report.looked_at(eye):
            found = tuple(_row(line, numbers, language) for line in lines)
            yield Group(say(language, f"eye-{eye}"), say(language, f"why-{eye}"), found)


def carriers(text: SharedText, report: Report) -> tuple[str, ...]:
    """Who carries a text, and where."""
    named = {line.component.ref: called(line.component) for line in report.lines}
    return tuple(dict.fromkeys(f"{named[ref]}: {path}" for ref, path in text.carried))


def called(component: Component) -> str:
    """A component's name and version; of a commit its first digits."""
    version = component.version[:_SHORT] if component.files else component.version
    return f"{component.name} {version}"


def headed(text: SharedText) -> str:
    """What a text is: its licences, or the name of its file."""
    return ", ".join(text.licences) or text.carried[0][1].rpartition("/")[2]


def anchor(text: SharedText) -> str:
    """The identifier of a text on a page."""
    return f"text-{text.sha256[:16]}"


def _row(line: Line, numbers: Mapping[str, tuple[int, ...]], language: str) -> Row:
    one = line.component
    declared = " ".join(one.declared.split()) or say(language, "not-stated")
    if len(declared) > _LONGEST:
        declared = f"{declared[: _LONGEST - 1]}…"
    agreements = {
        SAME: say(language, "same"),
        MORE: say(language, "more", names=", ".join(line.beyond)),
        OTHER: say(language, "other", names=", ".join(line.beyond)),
    }
    return Row(
        called(one),
        f"{say(language, one.scope)}, {say(language, one.kind)}",
        declared,
        say(language, line.family),
        _found(line, language),
        agreements.get(line.agreement, ""),
        line.family in LOOK,
        numbers.get(one.ref, ()),
    )


def _found(line: Line, language: str) -> str:
    if line.found:
        return ", ".join(line.found)
    count = len(line.component.texts)
    return say(language, "not-recognised", count=count) if count else say(language, "no-text")


def _numbers(report: Report) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for number, text in enumerate(report.texts, 1):
        for ref in dict.fromkeys(ref for ref, _ in text.carried):
            found.setdefault(ref, []).append(number)
    return {ref: tuple(numbers) for ref, numbers in found.items()}


@cache
def _words() -> dict[str, dict[str, str]]:
    text = (resources.files("bundler.papers") / "licences_words.toml").read_text("utf-8")
    return tomllib.loads(text)
