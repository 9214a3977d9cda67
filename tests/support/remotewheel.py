"""Single files of a wheel on the index, without fetching the wheel: HTTP ranges under zipfile."""

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import requests
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from wheelhouse.index import Index, Link
from wheelhouse.sources import Sources, from_settings

_BLOCK = 1 << 20  # bytes asked for at once, for small files that lie side by side
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_Offered = tuple[Link, Version, frozenset[Tag], SpecifierSet]


class Published:
    """The configured index alone, without local folders, as it was at a moment."""

    def __init__(self) -> None:
        self.sources: Sources = replace(from_settings(), find_links=())
        self.index = Index(self.sources)
        self.session = self.sources.session()
        self._offered: dict[str, list[_Offered]] = {}

    def newest(self, requirement: Requirement, python: str, date: str) -> Version:
        """The newest release that satisfies a requirement, has a wheel, and was there at the date.

        Raises LookupError.
        """
        found = [
            version
            for link, version, tags, pythons in self._wheels(requirement.name)
            if link.uploaded < date
            and not link.yanked
            and f"{python}.99" in pythons
            and requirement.specifier.contains(version, prereleases=bool(version.pre) or None)
            and any(floor(tag, python) is not None for tag in tags)
        ]
        if not found:
            raise LookupError(f"{requirement} at {date}")
        final = [version for version in found if not version.is_prerelease]
        return max(final or found)

    def floor(self, name: str, version: Version, python: str) -> tuple[int, int]:
        """The lowest glibc with a wheel for x86_64; (0, 0) where any will do."""
        return min(
            found
            for _, offered, tags, _ in self._wheels(name)
            if offered == version
            for tag in tags
            if (found := floor(tag, python)) is not None
        )

    def wheel(self, name: str, version: str, python: str) -> "RemoteWheel":
        """The wheel that pip would take for x86_64: of several builds the highest."""
        candidates = [
            link
            for link, offered, tags, _ in self._wheels(name)
            if offered == Version(version) and any(floor(tag, python) is not None for tag in tags)
        ]
        best = max(candidates, key=lambda link: parse_wheel_filename(link.filename)[2])
        return RemoteWheel(self.session, best)

    def _wheels(self, name: str) -> list[_Offered]:
        if name not in self._offered:
            self._offered[name] = list(_parsed(self.index.files(name)))
        return self._offered[name]


def _parsed(links: Iterable[Link]) -> Iterator[_Offered]:
    for link in links:
        # Old releases have names and fields that no longer count; pip passes them over as well.
        with suppress(InvalidWheelFilename, InvalidSpecifier):
            _, version, _, tags = parse_wheel_filename(link.filename)
            yield link, version, tags, SpecifierSet(link.requires_python)


def floor(tag: Tag, python: str) -> tuple[int, int] | None:
    """The glibc that a tag asks for, None where it is for another Python or machine."""
    digits = python.replace(".", "")
    own = tag.interpreter == f"cp{digits}" and tag.abi in (f"cp{digits}", "none")
    stable = (
        tag.abi == "abi3"
        and tag.interpreter.startswith("cp3")
        and int(tag.interpreter[3:]) <= int(digits[1:])
    )
    if not (own or stable or tag.interpreter.startswith("py")):
        return None
    legacy = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    if tag.platform == "any":
        return (0, 0)
    kind = tag.platform.removesuffix("_x86_64")
    if kind == tag.platform or not kind.startswith("manylinux"):
        return None
    if kind in legacy:
        return legacy[kind]
    major, minor = kind.removeprefix("manylinux_").split("_")
    return int(major), int(minor)


@dataclass(frozen=True)
class RemoteWheel:
    """One wheel on the index."""

    session: requests.Session
    link: Link

    @cached_property
    def archive(self) -> zipfile.ZipFile:
        """The wheel as an archive whose members are fetched when they are read."""
        raw = _Ranges(self.session, self.link.url, self.link.size)
        return zipfile.ZipFile(io.BufferedReader(raw, _BLOCK))

    def text(self, path: str) -> str:
        """A text file of the wheel."""
        return self.archive.read(path).decode()

    def requirements(self, python: str) -> dict[str, Requirement]:
        """Requires-Dist by project, as far as it concerns Linux on x86_64 and that Python."""
        environment = {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_system": "Linux",
            "platform_machine": "x86_64",
            "sys_platform": "linux",
            "extra": "",
        }
        found = map(Requirement, self.field("Requires-Dist"))
        return {
            canonicalize_name(one.name): one
            for one in found
            if one.marker is None or one.marker.evaluate(environment)
        }

    def field(self, name: str) -> list[str]:
        """The values of a field of METADATA; its copy on the index (PEP 658) is not everywhere."""
        (path,) = (one for one in self.archive.namelist() if _METADATA.fullmatch(one))
        head = self.text(path).partition("\n\n")[0]
        pairs = (line.partition(": ") for line in head.splitlines())
        return [value for key, _, value in pairs if key == name]


class _Ranges(io.RawIOBase):
    """A file behind a URL, read by ranges (RFC 9110, section 14)."""

    def __init__(self, session: requests.Session, url: str, size: int) -> None:
        self._session, self._url, self._size, self._place = session, url, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader's kind
        count = max(0, min(len(buffer), self._size - self._place))
        if count:
            last = self._place + count - 1
            headers = {"Range": f"bytes={self._place}-{last}"}
            answer = self._session.get(self._url, headers=headers, timeout=60)
            assert answer.status_code == requests.codes.partial_content, "no ranges served"
            buffer[:count] = answer.content
            self._place += count
        return count
