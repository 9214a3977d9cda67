"""Which packages are affected by which known vulnerabilities: the one rule of both sides.

As the schema says it (https://ossf.github.io/osv-schema/, "Evaluation"): a version is affected
where it is listed, or lies in a range.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from manifests.vulns import Interval, Vulnerability
from manifests.vulns_versions import Key, compare, key, same


@dataclass(frozen=True)
class Package:
    """A Python package, at one version, wherever it lies in the bundle."""

    name: str  # normalised (PEP 503)
    version: str
    places: tuple[str, ...] = ()  # "environment", "runtime", "provided"; sorted


@dataclass(frozen=True)
class Match:
    """A package and a vulnerability that it has."""

    package: Package
    vulnerability: Vulnerability


def affects(vulnerability: Vulnerability, version: str) -> bool:
    """Whether a version has a vulnerability."""
    return covered(version, vulnerability.intervals) or any(
        same(version, listed) for listed in vulnerability.versions
    )


def covered(version: str, intervals: Iterable[Interval]) -> bool:
    """Whether a version lies in an interval; a text that is no version lies in none."""
    found = key(version)
    return found is not None and any(_within(found, one) for one in intervals)


def _within(version: Key, interval: Interval) -> bool:
    """A bound that is no version bounds nothing: rather one finding too many than none."""
    if interval.introduced and compare(version, interval.introduced) < 0:
        return False
    if key(interval.fixed) is not None:
        return compare(version, interval.fixed) < 0
    return key(interval.last) is None or compare(version, interval.last) <= 0


def matches(
    known: Mapping[str, Sequence[Vulnerability]], packages: Iterable[Package]
) -> tuple[Match, ...]:
    """All vulnerabilities of packages, in the packages' order."""
    return tuple(
        Match(package, one)
        for package in packages
        for one in known.get(package.name, ())
        if affects(one, package.version)
    )
