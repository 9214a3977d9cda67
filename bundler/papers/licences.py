"""The licences of a bundle: per component what is declared and what its texts are.

A hint where to look, not legal advice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from bundler.papers import licences_declared, licences_found
from bundler.papers.bill import ADAPTER, MODEL, Bill, Component
from bundler.plan.licences import UNKNOWN, family_names, of_identifier, rank, strictest

#: How declared and found go together. Empty: one of them is not known.
SAME, MORE, OTHER = "same", "more", "other"
#: What needs a person's eye, in the order in which a report has it.
NVIDIA, MODELS, EXCEPTION, STRONG, WEAK = "nvidia", "models", "exception", "strong", "weak"
PROPRIETARY, NOTHING, PROSE, DIFFERENT = "proprietary", "nothing", "prose", "different"
EYES = (NVIDIA, MODELS, EXCEPTION, STRONG, WEAK, PROPRIETARY, NOTHING, PROSE, DIFFERENT)


@dataclass(frozen=True)
class Line:
    """One component, and what is to be said of its licences."""

    component: Component
    family: str  # of what is declared; where that says nothing, of what is found
    found: tuple[str, ...]  # identifiers, over all its texts
    agreement: str  # SAME, MORE, OTHER or empty
    beyond: tuple[str, ...]  # found, and not declared
    eyes: tuple[str, ...] = ()  # some of EYES
    places: tuple[str, ...] = ()  # of each found: the first text that holds it


@dataclass(frozen=True)
class SharedText:
    """One text, once, and everything that carries it."""

    sha256: str
    content: str
    licences: tuple[str, ...]
    carried: tuple[tuple[str, str], ...]  # (ref of the component, path below it)


@dataclass(frozen=True)
class Report:
    """All of it, in the order of the bill."""

    bill: Bill
    lines: tuple[Line, ...]
    texts: tuple[SharedText, ...]  # sorted by who carries them

    @property
    def families(self) -> Mapping[str, int]:
        """How many components are of each family, from what asks least to what asks most."""
        counts = Counter(line.family for line in self.lines)
        return {name: counts[name] for name in family_names() if counts[name]}

    def looked_at(self, eye: str) -> tuple[Line, ...]:
        """The components that need a person's eye for one reason."""
        return tuple(line for line in self.lines if eye in line.eyes)


def read(bill: Bill) -> Report:
    """The licences of a bill."""
    known = {
        text.sha256: licences_found.licences(text.content)
        for component in bill.components
        for text in component.texts
    }
    lines = tuple(_line(one, known) for one in bill.components)
    return Report(bill, lines, tuple(_texts(bill.components, known)))


def _line(component: Component, known: Mapping[str, tuple[str, ...]]) -> Line:
    found = licences_found.joined(name for text in component.texts for name in known[text.sha256])
    declared = licences_declared.identifiers(component)
    beyond = tuple(name for name in found if not licences_declared.fits(name, declared))
    agreement = ""
    if declared and found:
        agreement = SAME if not beyond else OTHER if len(beyond) == len(found) else MORE
    family = component.licence.family
    if family == UNKNOWN and found:
        family = strictest([of_identifier(name) for name in found])
    places = tuple(_place(name, component, known) for name in found)
    line = Line(component, family, found, agreement, beyond if declared else (), places=places)
    exception = any("GCC-exception" in name for name in (*declared, *found))
    return replace(line, eyes=tuple(_eyes(line, exception)))


def _place(name: str, component: Component, known: Mapping[str, tuple[str, ...]]) -> str:
    parts = name.split(" WITH ")
    return next(
        text.path for text in component.texts if any(part in known[text.sha256] for part in parts)
    )


def _eyes(line: Line, exception: bool) -> Iterator[str]:
    """Why a person should look; `exception`: its texts have the run-time exception of the GPL."""
    component = line.component
    if component.kind in (MODEL, ADAPTER):
        yield MODELS
    elif line.family == "proprietary":
        named = " ".join((component.licence.text, *line.found)).lower()
        yield NVIDIA if "nvidia" in named else PROPRIETARY
    if exception:
        yield EXCEPTION
    if line.family == "strong copyleft":
        yield STRONG
    if line.family == "weak copyleft" and not exception:
        yield WEAK
    if not component.declared:
        yield NOTHING
    elif component.licence.family == UNKNOWN:
        yield PROSE
    if line.agreement == OTHER or _stricter(line):
        yield DIFFERENT


def _stricter(line: Line) -> bool:
    """Whether a text that nobody declares asks more than what is declared."""
    known = [one for name in line.beyond if (one := of_identifier(name)) != UNKNOWN]
    return bool(known) and rank(strictest(known)) > rank(line.family)


def _texts(
    components: Iterable[Component], known: Mapping[str, tuple[str, ...]]
) -> Iterator[SharedText]:
    carried: dict[str, list[tuple[str, str]]] = {}
    contents: dict[str, str] = {}
    for component in components:
        for text in component.texts:
            carried.setdefault(text.sha256, []).append((component.ref, text.path))
            contents[text.sha256] = text.content
    for digest, users in sorted(carried.items(), key=lambda item: (item[1], item[0])):
        yield SharedText(digest, contents[digest], known[digest], tuple(users))
