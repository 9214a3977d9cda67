"""What an isolated host already has, shown to pip as installed: metadata alone.

A stub has a distribution's name, version and requirements, and no code. It lies in a scratch
folder that only one run of pip looks at: none gets into the store, a lock or a bundle.

The inventory comes from outside. Requirements that name a URL would make pip fetch it, so a
distribution with one is not shown; nor is one whose metadata pip would not understand.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from manifests.inventory import Distribution, Inventory


@dataclass(frozen=True)
class Below:
    """The distributions below an overlay that pip can be told of."""

    distributions: tuple[Distribution, ...] = ()
    notes: tuple[str, ...] = ()  # what is not offered, a sentence each

    def named(self, names: Iterable[str]) -> tuple[Distribution, ...]:
        """Those among the names, sorted by name."""
        wanted = frozenset(names)
        return tuple(one for one in self.distributions if one.name in wanted)


#: There is nothing below: the whole environment is carried.
NOTHING = Below()


def below(inventory: Inventory) -> Below:
    """What an inventory has to offer, and what of it can't be understood."""
    fit, notes = [], []
    for one in sorted(inventory.distributions, key=lambda one: one.name):
        if problem := _problem(one):
            notes.append(f"{one.name} of the host's environment is passed over: {problem}")
        else:
            fit.append(one)
    return Below(tuple(fit), tuple(notes))


def _problem(one: Distribution) -> str:
    """Why pip can't be told of a distribution; empty where it can."""
    try:
        Version(one.version)
        SpecifierSet(one.requires_python)
        requirements = [Requirement(text) for text in one.requires]
    except InvalidVersion:
        return f"{one.version!r:.80} is no version of Python's packages (PEP 440)"
    except InvalidSpecifier:
        return f"Requires-Python is {one.requires_python!r:.80}"
    except InvalidRequirement as error:
        return f"a requirement can't be read: {' '.join(str(error).split())!s:.120}"
    direct = next((wanted for wanted in requirements if wanted.url), None)
    return f"it requires {direct.name} by its address" if direct is not None else ""


def metadata(one: Distribution) -> str:
    """METADATA with all that resolving looks at."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {one.name}",
        f"Version: {Version(one.version)}",
        *([f"Requires-Python: {one.requires_python}"] if one.requires_python else []),
        *(f"Provides-Extra: {extra}" for extra in one.extras),
        *(f"Requires-Dist: {text}" for text in one.requires),
    ]
    return "".join(f"{line}\n" for line in lines)


def pretend_installed(distributions: Iterable[Distribution], folder: Path) -> None:
    """Have an interpreter with `folder` on its path believe that it has them."""
    for one in distributions:
        info = folder / f"{one.name.replace('-', '_')}-{Version(one.version)}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(metadata(one), "utf-8")
