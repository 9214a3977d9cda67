"""Where pip, to which the highest version is best, would take what nobody meant.

*Local builds* (PEP 440, 2.10.0+cu128) sort above the published 2.10.0 that a requirement asks for.
*Strangers* are releases on the index under the name of a project that a folder of one's own holds:
the road of dependency confusion (pypa/pip#8606). Both are answered by constraints, and told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifests.errors import UsageError
from wheelhouse.fitness import Candidate

Pin = tuple[str, Version]


@dataclass(frozen=True)
class Ruling:
    """What is not taken: as lines for pip, and as a sentence."""

    constraints: tuple[str, ...]
    note: str


def named(roots: Iterable[Requirement]) -> frozenset[Pin]:
    """The builds that requirements ask for by their exact version."""
    return frozenset(
        (canonicalize_name(root.name), Version(specifier.version))
        for root in roots
        for specifier in root.specifier
        if specifier.operator in ("==", "===") and not specifier.version.endswith(".*")
    )


def local_build(pin: Pin, offered: Sequence[Candidate], asked: frozenset[Pin]) -> Ruling | None:
    """The ruling against a local build that nobody named, where what was published is there too."""
    name, version = pin
    public = Version(version.public)
    if version.local is None or pin in asked or _offer(offered, public) is None:
        return None
    builds = {c.version for c in offered if c.version is not None and c.version.local}
    place = _place(_offer(offered, version))
    return Ruling(
        tuple(f"{name}!={build}" for build in sorted(builds) if (name, build) not in asked),
        f"{name} {public} is taken; {version} from {place} is a local build "
        "that no requirement names",
    )


def stranger(
    pin: Pin, offered: Sequence[Candidate], asked: frozenset[Pin], index: str
) -> Ruling | None:
    """The ruling against a release on the index, where a folder has a project of that name.

    A folder with copies of what the index publishes is no project of one's own.
    """
    name, version = pin
    own = _newest_own(offered, index)
    if own is None or own.version is None or pin in asked or version <= own.version:
        return None
    chosen = _offer(offered, version)
    if chosen is None or chosen.link.source != index:
        return None
    return Ruling(
        (f"{name}<={own.version}",),
        f"{name} {own.version} from {_place(own)} is taken; "
        f"{_place(chosen)} has {version} under the same name",
    )


def confusion(pin: Pin, offered: Sequence[Candidate], index: str) -> UsageError:
    """The error where a requirement can't be met without the stranger."""
    name, version = pin
    own = _newest_own(offered, index)
    assert own is not None  # there is a ruling only where there is one
    return UsageError(
        f"{name}: {_place(own)} has {own.version}, {index} has {version} under the same name, "
        "and only that one fits the requirements",
        why="of two sources of a name the higher version would win, whoever published it",
        mend=f"put `{name}=={version}` among the stack's requirements if it is the one meant, "
        f"or leave {_place(own)} out",
    )


def _newest_own(offered: Sequence[Candidate], index: str) -> Candidate | None:
    published = {c.link.filename for c in offered if c.link.source == index}
    own = [
        candidate
        for candidate in offered
        if candidate.link.source != index
        and candidate.link.filename not in published
        and not candidate.unfit
        and candidate.version is not None
        and candidate.version.local is None
    ]
    return max(own, key=lambda candidate: candidate.version or Version("0"), default=None)


def _offer(offered: Sequence[Candidate], version: Version) -> Candidate | None:
    return next((c for c in offered if c.version == version and not c.unfit), None)


def _place(candidate: Candidate | None) -> str:
    return candidate.link.source if candidate else "nowhere"
