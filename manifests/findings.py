"""Findings: every single problem of a thing that was looked at, gathered into one error."""

from collections.abc import Iterable
from dataclasses import dataclass

from manifests.errors import BundleError, IntegrityError, UsageError


@dataclass(frozen=True)
class Finding:
    """One problem. `damage` says that bytes are not what their source published."""

    text: str
    mend: str = ""
    damage: bool = False

    @classmethod
    def of(cls, error: BundleError) -> "Finding":
        """An error as one finding among others."""
        return cls(error.what, error.mend, isinstance(error, IntegrityError))


def refuse(what: str, findings: Iterable[Finding]) -> None:
    """Raise one error for all findings, IntegrityError if any is damage, otherwise UsageError.

    Returns where there are none.
    """
    found = tuple(dict.fromkeys(findings))
    if not found:
        return
    kind = IntegrityError if any(finding.damage for finding in found) else UsageError
    mends = dict.fromkeys(finding.mend for finding in found if finding.mend)
    raise kind(what, mend="; ".join(mends), findings=[finding.text for finding in found])
