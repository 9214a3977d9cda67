"""Our database as a service of pip-audit, and its audit of a list of packages.

The one place that knows pip-audit. Which versions are affected is decided by manifests.vulns_match,
as it is on the isolated side.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from packaging.version import InvalidVersion, Version
from pip_audit._audit import Auditor
from pip_audit._dependency_source import DependencySource
from pip_audit._service import (
    Dependency,
    ResolvedDependency,
    VulnerabilityResult,
    VulnerabilityService,
)
from pip_audit._service.interface import VulnerabilityID

from manifests.vulns import Vulnerability
from manifests.vulns_match import Match, Package, affects

Known = Mapping[str, Sequence[Vulnerability]]


class DatabaseService(VulnerabilityService):  # type: ignore[misc]  # it has no types
    """A database in the place of an address on the network."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def query(self, spec: Dependency) -> tuple[Dependency, list[VulnerabilityResult]]:
        """What is known of one package."""
        if spec.is_skipped():
            return spec, []
        version = str(cast(ResolvedDependency, spec).version)
        return spec, [
            VulnerabilityResult.create(
                ids=[VulnerabilityID(name) for name in one.ids],
                description=one.summary,
                fix_versions=_versions(one.fixed),
                published=None,
            )
            for one in self._known.get(spec.canonical_name, ())
            if affects(one, version)
        ]


class _Listed(DependencySource):  # type: ignore[misc]  # it has no types
    """Packages that are known already."""

    def __init__(self, packages: Sequence[Package]) -> None:
        self._packages = packages

    def collect(self) -> Iterator[Dependency]:
        for one in self._packages:
            yield ResolvedDependency(one.name, Version(one.version))

    def fix(self, fix_version: object) -> None:
        raise NotImplementedError("a bundle is not mended in place")


def audit(known: Known, packages: Sequence[Package]) -> tuple[Match, ...]:
    """All vulnerabilities of packages, whose versions are those of PEP 440; in their order."""
    auditor = Auditor(DatabaseService(known))
    found: list[Match] = []
    for package, (_, results) in zip(packages, auditor.audit(_Listed(packages)), strict=True):
        named = {result.id for result in results}
        ours = known.get(package.name, ())
        found += [Match(package, one) for one in ours if named & set(one.ids)]
    return tuple(found)


def _versions(texts: Sequence[str]) -> list[Version]:
    found = []
    for text in texts:
        try:
            found.append(Version(text))
        except InvalidVersion:
            continue
    return sorted(found)
