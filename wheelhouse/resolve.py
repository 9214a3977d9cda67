"""From requirements to wheels with digests.

pip-tools decides the versions; then, for every pin, the file that pip would take and the digest
that its source published are read from the source itself.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from manifests.digests import hash_file
from manifests.errors import IntegrityError, SourceError, TargetError, from_oserror
from manifests.lock import COMPUTED, PUBLISHED, Target, Wheel
from wheelhouse.fitness import Candidate, Judge, best
from wheelhouse.index import Index, Link
from wheelhouse.pins import Unresolved, compile_pins
from wheelhouse.refusal import refusal, too_old
from wheelhouse.sources import Sources
from wheelhouse.toolbox import prepare

#: pip's sentences that end in a requirement which it could not meet.
_STUMBLED = re.compile(r"(?:that satisfies the requirement| depends on) ([^()]+?)(?: \(from .*)?$")


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

    def offers(self, requirement: str) -> bool:
        """Whether a source has a wheel for a requirement that fits the target.

        Raises SourceError where a source can't be read.
        """
        wanted = Requirement(requirement)
        return best(self._judge.matching(self._index, wanted)) is not None

    def pick(self, requirement: str) -> Wheel:
        """The wheel that pip would take for a requirement, without what it requires.

        Raises SourceError or TargetError where there is none.
        """
        wanted = Requirement(requirement)
        candidates = self._judge.matching(self._index, wanted)
        found = best(candidates)
        if found is None:
            raise self._refusal(wanted)
        return _wheel(found, candidates)

    def resolve(
        self, requirements: Sequence[str], extra_links: Path | None = None
    ) -> tuple[Wheel, ...]:
        """The closure of the requirements, sorted by name.

        `extra_links` is a folder with more wheels. Raises SourceError or TargetError where there
        is no closure, or where a release newer than the chosen one exists but has no fitting wheel.
        """
        if extra_links is not None:
            self._sources = self._sources.with_folder(extra_links)
            self._index = Index(self._sources)
        roots = [Requirement(line) for line in requirements]
        self._index.prefetch({canonicalize_name(root.name) for root in roots})
        for root in roots:
            self._check(root)
        try:
            pins = compile_pins(
                requirements, self._toolbox, self._sources, self._date, self._scratch
            )
        except Unresolved as error:
            raise self._explained(error) from None
        self._index.prefetch(pins)
        return tuple(self.pick(f"{name}==={pins[name]}") for name in sorted(pins))

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
            wanted = Requirement(match[1].replace(" and ", ","))
            if best(self._judge.matching(self._index, wanted)) is None:
                return self._refusal(wanted)
        return error


def requirements_text(wheels: Sequence[Wheel]) -> str:
    """The wheels as a requirements file in pip-tools' form, one hash each."""
    return "".join(
        f"{wheel.name}=={wheel.version} \\\n    --hash=sha256:{wheel.sha256}\n"
        for wheel in sorted(wheels, key=lambda wheel: wheel.name)
    )


def _wheel(found: Candidate, candidates: Sequence[Candidate]) -> Wheel:
    """A candidate as it stands in a lock.

    Raises IntegrityError where two sources publish other bytes under its file name.
    """
    link = found.link
    published = {
        candidate.link.sha256: candidate.link
        for candidate in candidates
        if candidate.link.filename == link.filename and candidate.link.sha256
    }
    digest = link.sha256 or _hash(link)
    if digest and set(published) - {digest}:
        raise IntegrityError(
            f"{link.filename}: two sources have different bytes under this name",
            findings=[f"{digest}  {link.url}"]
            + [f"{other}  {published[other].url}" for other in published if other != digest],
            mend="remove the wrong one, or name only one of the sources",
        )
    if digest in published:
        link = published[digest]
    assert found.version is not None  # only judged files with a version are chosen
    return Wheel(
        name=canonicalize_name(link.filename.split("-")[0]),
        version=str(found.version),
        filename=link.filename,
        url=f"file:{link.filename}" if link.local else link.url,
        sha256=digest,
        digest_from=PUBLISHED if link.sha256 else COMPUTED,
        size=link.size,
    )


def _hash(link: Link) -> str:
    if link.local is None:
        raise SourceError(
            f"{link.filename}: its source publishes no sha256 for it",
            why="without one nothing could tell whether the file was altered on its way",
            mend="download it by hand, check it, and name its folder with --find-links",
        )
    try:
        return hash_file(link.local)
    except OSError as error:
        raise from_oserror(error, f"hashing {link.filename}", link.local) from error
