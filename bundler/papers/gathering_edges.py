"""Who needs whom: what packages require, as it holds on the target."""

from collections.abc import Iterable, Mapping

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from manifests.lock import Target

#: What a marker looks at: https://packaging.python.org/specifications/dependency-specifiers/. All
#: of it is said here, because `packaging` takes the rest from the machine that it runs on.
_LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "platform_release": "0",
    "platform_system": "Linux",
    "platform_version": "0",
    "sys_platform": "linux",
}


def environment(target: Target, python: str) -> dict[str, str]:
    """The values of markers on a target whose Python has this version, "3.12.9"."""
    return {
        **_LINUX,
        "implementation_version": python,
        "platform_machine": target.arch,
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
    }


def of_wheels(
    needs: Mapping[str, Iterable[str]], environment: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """For each distribution those among the others that it requires.

    `needs` are Requires-Dist by normalised name. Extras count where some distribution asks for
    them. A line that can't be understood requires nothing.
    """
    wanted = {name: [*_parsed(lines)] for name, lines in needs.items()}
    extras: dict[str, set[str]] = {name: {""} for name in needs}
    edges: dict[str, set[str]] = {name: set() for name in needs}
    waiting = sorted(needs)
    while waiting:
        name = waiting.pop()
        for one in wanted[name]:
            other = canonicalize_name(one.name)
            if other not in needs or not _holds(one.marker, environment, extras[name]):
                continue
            edges[name].add(other)
            if new := set(map(canonicalize_name, one.extras)) - extras[other]:
                extras[other] |= new
                waiting.append(other)
    return {name: frozenset(found - {name}) for name, found in edges.items()}


def _parsed(lines: Iterable[str]) -> Iterable[Requirement]:
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue


def _holds(marker: Marker | None, environment: Mapping[str, str], extras: set[str]) -> bool:
    if marker is None:
        return True
    try:
        return any(marker.evaluate({**environment, "extra": extra}) for extra in sorted(extras))
    except ValueError:  # it compares what can't be compared
        return False


def of_conda(needs: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """For each conda package those among the others that it depends on.

    `needs` are match specs by name: a name first, after a channel where one is meant
    (https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html#package-match-specifications).
    Virtual packages (`__glibc`) are the host's.
    """
    return {
        name: frozenset(
            other for line in lines if (other := _named(line)) in needs and other != name
        )
        for name, lines in needs.items()
    }


def _named(spec: str) -> str:
    words = spec.rpartition("::")[2].replace("=", " ").replace("<", " ").replace(">", " ").split()
    return words[0].lower() if words else ""
