"""From requirements to wheels with digests.

pip-tools decides the versions; then, for every pin, the file that pip would take and the digest
that its source published are read from the source itself.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifests.errors import SourceError, TargetError
from manifests.lock import Target, Wheel
from wheelhouse import rivals
from wheelhouse.above import compile_above
from wheelhouse.described import describe
from wheelhouse.fitness import Candidate, Judge, best
from wheelhouse.index import Index
from wheelhouse.pins import Unresolved, compile_pins
from wheelhouse.refusal import refusal, too_old
from wheelhouse.rivals import Pin, Ruling
from wheelhouse.sources import Sources
from wheelhouse.stubs import NOTHING, Below
from wheelhouse.toolbox import prepare

#: pip's sentences that end in a requirement which it could not meet, and who has it.
_STUMBLED = re.compile(
    r"(?:that satisfies the requirement |^(?P<app>\S+ \S+) depends on )(?P<needed>[^()]+?)"
    r"(?: \(from (?P<parent>[^()]+)\))?$"
)

Rule = Callable[[Pin, Sequence[Candidate], frozenset[Pin]], Ruling | None]
Rulings = dict[Pin, Ruling]


class Resolver:
    """Resolves for one target from one set of sources."""

    def __init__(
        self, sources: Sources, python: Path, target: Target, date: str, scratch: Path
    ) -> None:
        """`python` is an interpreter of the target's Python; `date` RFC 3339 in UTC, or empty.

        Raises UsageError where the interpreter does not fit the target.
        """
        self._toolbox = prepare(scratch, python, target)
        self._judge = Judge(self._toolbox.platform(), date)
        self._sources = sources
        self._index = Index(sources)
        self._date = date
        self._scratch = scratch
        self.notes: list[str] = []  # what was passed over, and why
        self.provided: tuple[str, ...] = ()  # names in the closure that are `below`, sorted

    def offers(self, requirement: str) -> bool:
        """Whether a source has a wheel for a requirement that fits the target.

        Raises SourceError where a source can't be read.
        """
        wanted = Requirement(requirement)
        return best(self._judge.matching(self._index, wanted)) is not None

    def prefetch(self, names: Iterable[str]) -> None:
        """Read what the sources have of many projects at once.

        Raises SourceError where a source can't be read.
        """
        self._index.prefetch(names)

    def pick(self, requirement: str) -> Wheel:
        """The wheel to take for a requirement, without what it requires.

        Raises SourceError or TargetError where there is none, IntegrityError where two sources
        publish other bytes under its name.
        """
        return self._pick(requirement, self._judge)

    def newest(self, requirement: str) -> Wheel:
        """As `pick`, but whenever it was uploaded."""
        return self._pick(requirement, replace(self._judge, date=""))

    def _pick(self, requirement: str, judge: Judge) -> Wheel:
        wanted = Requirement(requirement)
        candidates = judge.matching(self._index, wanted)
        found = best(candidates)
        if found is None:
            raise self._refusal(wanted)
        return describe(found, candidates)

    def resolve(
        self,
        requirements: Sequence[str],
        extra_links: Path | None = None,
        *,
        constraints: Sequence[str] = (),
        kept: Mapping[str, Version] = MappingProxyType({}),
        below: Below = NOTHING,
    ) -> tuple[Wheel, ...]:
        """The closure of the requirements, sorted by name; `notes` tells what was passed over.

        `extra_links` is a folder with more wheels; `constraints` and `kept` are as for
        `compile_pins`. What is left to the host's environment, `below`, is not among the wheels:
        `provided` names it; then `kept` plays no part. Raises SourceError or TargetError where
        there is no closure, or where a release newer than the chosen one exists but has no fitting
        wheel, UsageError where two sources compete for a name.
        """
        if extra_links is not None:
            self._sources = self._sources.with_folder(extra_links)
            self._index = Index(self._sources)
        roots = [Requirement(line) for line in requirements]
        self._index.prefetch({canonicalize_name(root.name) for root in roots})
        for root in roots:
            self._check(root)

        def compiled(more: Sequence[str]) -> dict[str, Version]:
            bounds = (*constraints, *more)
            asked = (self._toolbox, self._sources, self._date, self._scratch)
            if below.distributions:
                found = compile_above(requirements, below, *asked, constraints=bounds)
                pins, self.provided = found.carried, found.provided
            else:
                pins = compile_pins(requirements, *asked, constraints=bounds, kept=kept)
            self._index.prefetch(pins)
            return pins

        asked = rivals.named([*roots, *map(Requirement, constraints)])
        try:
            pins = self._settled(compiled, asked)
        except Unresolved as error:
            raise self._explained(error) from None
        return tuple(self.pick(f"{name}==={pins[name]}") for name in sorted(pins))

    def _settled(
        self, compiled: Callable[[Sequence[str]], dict[str, Version]], asked: frozenset[Pin]
    ) -> dict[str, Version]:
        """Pins without the local builds and the strangers that nobody asked for."""
        pins = compiled(())
        bounds: list[str] = []
        if builds := self._rulings(rivals.local_build, pins, asked):
            # Where that fails, a requirement below the roots names the build.
            with suppress(Unresolved):
                pins = compiled(_constraints(builds))
                bounds = _constraints(builds)
                self.notes += [ruling.note for ruling in builds.values()]
        while strangers := self._rulings(self._stranger, pins, asked):
            bounds += _constraints(strangers)
            try:
                pins = compiled(bounds)
            except Unresolved:
                pin = next(iter(strangers))
                offered = self._judge.candidates(self._index, pin[0])
                raise rivals.confusion(pin, offered, self._sources.index) from None
            self.notes += [ruling.note for ruling in strangers.values()]
        return pins

    def _stranger(
        self, pin: Pin, offered: Sequence[Candidate], asked: frozenset[Pin]
    ) -> Ruling | None:
        return rivals.stranger(pin, offered, asked, self._sources.index)

    def _rulings(self, rule: Rule, pins: Mapping[str, Version], asked: frozenset[Pin]) -> Rulings:
        """What a rule says about pins; the many that come from the index alone are not judged."""
        found = {}
        for pin in pins.items():
            sources = {link.source for link in self._index.files(pin[0])}
            if pin[1].local is None and sources == {self._sources.index}:
                continue
            ruling = rule(pin, self._judge.candidates(self._index, pin[0]), asked)
            if ruling is not None:
                found[pin] = ruling
        return found

    def _refusal(self, wanted: Requirement) -> SourceError | TargetError:
        everything = self._judge.candidates(self._index, wanted.name)
        return refusal(wanted, everything, self._judge.matching(self._index, wanted))

    def _check(self, root: Requirement) -> None:
        """Refuse a root that has no wheel, or for which pip would silently take an older one."""
        if root.marker is not None:
            return
        allowed = self._judge.matching(self._index, root)
        found = best(allowed)
        if found is None:
            raise self._refusal(root)
        silently_older = too_old(root, found, allowed)
        if silently_older is not None:
            raise silently_older

    def _explained(self, error: Unresolved) -> SourceError | TargetError:
        """The failure, with what the sources say about the project that it stumbled over."""
        for line in error.findings:
            match = _STUMBLED.search(line)
            if match is None:
                continue
            wanted = Requirement(match["needed"].replace(" and ", ","))
            if best(self._judge.matching(self._index, wanted)) is None:
                found = self._refusal(wanted)
                parent = match["app"] or match["parent"]
                if parent and not found.why:
                    found.why = f"{parent} requires it"
                return found
        return error


def _constraints(rulings: Rulings) -> list[str]:
    return [line for ruling in rulings.values() for line in ruling.constraints]


def requirements_text(wheels: Sequence[Wheel]) -> str:
    """The wheels as a requirements file in pip-tools' form, one hash each."""
    return "".join(
        f"{wheel.name}=={wheel.version} \\\n    --hash=sha256:{wheel.sha256}\n"
        for wheel in sorted(wheels, key=lambda wheel: wheel.name)
    )
