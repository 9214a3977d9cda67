"""Which offered files fit the target, and in one clause why a file does not."""

from dataclasses import dataclass
from functools import cached_property

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from wheelhouse.index import Index, Link
from wheelhouse.toolbox import Platform

# https://peps.python.org/pep-0600/#legacy-manylinux-tags
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
#: How `Candidate.unfit` begins where the reason matters to others.
NO_WHEEL, NEEDS_GLIBC, TOO_LATE = "is no wheel", "needs glibc", "was uploaded on"


@dataclass(frozen=True)
class Candidate:
    """An offered file, judged."""

    link: Link
    version: Version | None  # None where the name does not say
    rank: int  # lower is better; meaningless where unfit
    build: tuple[int, str] | tuple[()]
    unfit: str  # empty where it fits; completes "the file …"


@dataclass(frozen=True)
class Judge:
    """The target's rules: tags, Python, and the moment after which uploads don't count."""

    platform: Platform
    date: str = ""  # RFC 3339 in UTC, or empty

    # Computed once: a project may have thousands of files, and a target has a thousand tags.
    @cached_property
    def _order(self) -> dict[str, int]:
        return {tag: rank for rank, tag in enumerate(self.platform.tags)}

    @cached_property
    def _interpreters(self) -> set[str]:
        return {tag.rpartition("-")[0] for tag in self.platform.tags}

    def candidates(self, index: Index, name: str) -> list[Candidate]:
        """Every file of a project, judged."""
        return [self.judge(link) for link in index.files(name)]

    def matching(self, index: Index, wanted: Requirement) -> list[Candidate]:
        """The files whose version a requirement allows, judged; pre-releases as pip has them."""
        allowed: dict[str, bool] = {}
        found = []
        for link in index.files(wanted.name):
            text = _version_text(link.filename)
            if text not in allowed:
                version = _version(text)
                allowed[text] = version is not None and wanted.specifier.contains(version)
            if allowed[text]:
                found.append(self.judge(link))
        return found

    def judge(self, link: Link) -> Candidate:
        """One file, judged."""
        if not link.filename.endswith(".whl"):
            return Candidate(link, _version(_version_text(link.filename)), 0, (), NO_WHEEL)
        try:
            _, version, build, tags = parse_wheel_filename(link.filename)
        except (InvalidWheelFilename, InvalidVersion):
            return Candidate(link, None, 0, (), "has no valid wheel name")
        ranks = [self._order[str(tag)] for tag in tags if str(tag) in self._order]
        unfit = self._wrong_python(link)
        if not ranks:
            unfit = unfit or self._wrong_tag(tags)
        unfit = unfit or self._too_late(link)
        return Candidate(link, version, min(ranks, default=0), build, unfit)

    def _too_late(self, link: Link) -> str:
        # As pip's --uploaded-prior-to: folders are not concerned.
        if self.date and link.uploaded >= self.date and not link.local:
            return f"{TOO_LATE} {link.uploaded[:10]}, after the stack's date {self.date[:10]}"
        return ""

    def _wrong_python(self, link: Link) -> str:
        try:
            fits = SpecifierSet(link.requires_python).contains(self.platform.python, True)
        except InvalidSpecifier:
            return ""
        return "" if fits else f"needs Python {link.requires_python}"

    def _wrong_tag(self, tags: frozenset[Tag]) -> str:
        """The first part of the tags that fails, for the tag that comes closest."""
        near = [tag for tag in tags if f"{tag.interpreter}-{tag.abi}" in self._interpreters]
        if not near:
            built = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
            return f"is built for {built}, the target has Python {self.platform.python}"
        platforms = sorted(tag.platform for tag in near)
        floors = [floor for tag in platforms if (floor := _glibc(tag, self.platform.arch))]
        if floors:
            lowest = min(floors, key=Version)
            return f"{NEEDS_GLIBC} {lowest}, the target has {self.platform.glibc}"
        return f"is built for {', '.join(platforms)}"


def best(candidates: list[Candidate]) -> Candidate | None:
    """The file to take: newest version, then best tag, then highest build number, as pip has it.

    Unlike pip, not a local build (PEP 440, 2.0+cu128) where the published version is there too:
    whoever wants one asks for it by name, and then nothing else is among the candidates.
    """
    fit = [candidate for candidate in candidates if not candidate.unfit]
    versions = {candidate.version for candidate in fit if candidate.version is not None}
    newest = max(versions, default=None)
    if newest is not None and Version(newest.public) in versions:
        newest = Version(newest.public)
    same = [candidate for candidate in fit if candidate.version == newest]
    rank = min((candidate.rank for candidate in same), default=0)
    same = [candidate for candidate in same if candidate.rank == rank]
    return max(same, key=lambda candidate: candidate.build or (-1, ""), default=None)


def _glibc(platform: str, arch: str) -> str:
    """The glibc that a platform tag of this architecture asks for; empty for other platforms."""
    family, _, rest = platform.removesuffix(f"_{arch}").partition("_")
    if not platform.endswith(f"_{arch}") or not family.startswith("manylinux"):
        return ""
    return _LEGACY.get(family) or rest.replace("_", ".")


def _version_text(filename: str) -> str:
    """The version in the name of a wheel or source archive, as it stands there."""
    if filename.endswith(".whl"):
        return filename.split("-")[1] if "-" in filename else ""
    return filename.removesuffix(".tar.gz").removesuffix(".zip").rpartition("-")[2]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
