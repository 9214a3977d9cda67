"""Closures with wheels beside those of the sources: repaired ones, and those of an older lock."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifests.errors import UsageError
from manifests.lock import Wheel
from wheelhouse.fetch import Fetcher, wanted
from wheelhouse.resolve import Resolver
from wheelhouse.sources import Sources
from wheelhouse.store import Store
from wheelhouse.stubs import NOTHING, Below


@dataclass(frozen=True)
class Upgrade:
    """The wheels of a lock that exists, and those among them that change; all others stay.

    A named package is not held by the stack's resolution date: a mend for it may be of yesterday.
    """

    wheels: tuple[Wheel, ...]
    packages: tuple[str, ...]  # requirements, "aiohttp" or "aiohttp==3.14.0"

    def named(self) -> dict[str, str]:
        """The requirement for each named package that is among the wheels."""
        names = {wheel.name for wheel in self.wheels}
        asked = {canonicalize_name(Requirement(text).name): text for text in self.packages}
        return {name: text for name, text in asked.items() if name in names}


#: NAME or NAME==VERSION, without extras and markers.
_PLAIN = re.compile(r"[A-Za-z0-9._-]+(===?[A-Za-z0-9._+!-]+)?")
#: No lock to start from.
AFRESH = Upgrade((), ())


@dataclass
class Additions:
    """A folder with wheels beside those of the sources, and how they stand in the lock."""

    folder: Path
    store: Store
    wheels: dict[tuple[str, str], Wheel] = field(default_factory=dict)  # by name and version

    def add(self, wheels: Iterable[Wheel]) -> None:
        """Offer wheels that are in the store."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for wheel in wheels:
            (self.folder / wheel.filename).symlink_to(self.store.path(wheel.sha256))
            self.wheels[wheel.name, wheel.version] = wheel


def check_packages(packages: Iterable[str], wheels: Iterable[Wheel]) -> None:
    """Refuse what can't be upgraded.

    Raises UsageError for what is neither NAME nor NAME==VERSION, and for a package that is not
    among the wheels of the lock, naming the nearest.
    """
    names = sorted({wheel.name for wheel in wheels})
    for package in packages:
        try:
            wanted = Requirement(package)
        except InvalidRequirement:
            wanted = None
        if wanted is None or not _PLAIN.fullmatch(package):
            raise UsageError(
                f"--upgrade-package {package}: neither NAME nor NAME==VERSION",
                mend="for example --upgrade-package aiohttp==3.14.0",
            )
        name = canonicalize_name(wanted.name)
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3)
            raise UsageError(
                f"--upgrade-package {package}: the lock has no {name}",
                mend=f"did you mean {' or '.join(near)}?" if near else "look at the lock's wheels",
            )


def resolved(
    requirements: Sequence[str],
    resolver: Resolver,
    sources: Sources,
    more: Additions,
    upgrade: Upgrade = AFRESH,
    below: Below = NOTHING,
) -> tuple[Wheel, ...]:
    """The closure; with an upgrade, what it does not name stays as it was, to the file.

    `below` is as for `Resolver.resolve`. Raises what `Resolver.resolve` and `Fetcher.fetch` raise.
    """
    named = upgrade.named()
    newer = [resolver.newest(text) for text in named.values()]
    older = [w for w in upgrade.wheels if w.name not in named and w.derived is None]
    resolver.prefetch(wheel.name for wheel in older)
    # What was uploaded after the stack's date is not seen on the index, but in a folder it is.
    late = [w for w in (*newer, *older) if not resolver.offers(f"{w.name}==={w.version}")]
    Fetcher(sources, more.store).fetch(map(wanted, late))
    more.add(late)
    found = resolver.resolve(
        requirements,
        extra_links=more.folder,
        constraints=[f"{wheel.name}==={wheel.version}" for wheel in newer],
        kept={wheel.name: Version(wheel.version) for wheel in older},
        below=below,
    )
    fixed = {(wheel.name, wheel.version): wheel for wheel in older} | more.wheels
    return tuple(fixed.get((wheel.name, wheel.version), wheel) for wheel in found)
