"""Does the host fit? Each check says what was found, what is needed, and the mend."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bundlectl.checks import CHECKS, INFO, OK, STOP, WARN, Check
from bundlectl.checks import Needs as Needs
from bundlectl.host import Host
from manifests.errors import FilesystemError, TargetError, UsageError

_ORDER = (STOP, WARN, INFO, OK)


@dataclass(frozen=True)
class Finding:
    """What one check says."""

    name: str
    level: str  # "stop", "warn", "info" or "ok"
    found: str
    needed: str = ""
    mend: str = ""

    def line(self) -> str:
        """The finding on one line."""
        needed = f", needed: {self.needed}" if self.needed else ""
        mend = f" — {self.mend}" if self.mend and self.level != OK else ""
        return f"{self.name}: {self.found}{needed}{mend}"


def rounded(sizes: Iterable[int], block: int) -> int:
    """Bytes that files of these sizes take on a file system that gives whole blocks."""
    return sum(-(-size // block) * block for size in sizes)


def examine(needs: Needs, host: Host, ignore: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """Every check's finding, the worst first; a check in `ignore` that fails is but a warning.

    Raises UsageError where `ignore` names a check that does not exist or can't be ignored.
    """
    _check_ignored(ignore)
    findings = [_finding(check, needs, host, check.name in ignore) for check in CHECKS]
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.level)))


def refuse(findings: Sequence[Finding]) -> None:
    """Stop where a finding says so.

    Raises FilesystemError where the file system is all that is wrong, else TargetError.
    """
    stops = [finding for finding in findings if finding.level == STOP]
    if not stops:
        return
    kinds = {check.error for check in CHECKS for stop in stops if check.name == stop.name}
    kind = FilesystemError if kinds == {FilesystemError} else TargetError
    if len(stops) == 1:
        (stop,) = stops
        needed = f", needed: {stop.needed}" if stop.needed else ""
        raise kind(f"this host does not fit: {stop.name}: {stop.found}{needed}", mend=stop.mend)
    raise kind(
        f"this host does not fit: {len(stops)} checks failed",
        findings=[stop.line() for stop in stops],
        mend="mend each of them, then run the same command again",
    )


def _check_ignored(ignore: frozenset[str]) -> None:
    known = {check.name: check for check in CHECKS}
    for name in sorted(ignore):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
            raise UsageError(f"there is no check {name!r} to ignore", mend=hint)
        if not known[name].can_be_ignored:
            raise UsageError(
                f"the check {name!r} can't be ignored",
                why="the installation would fail half-way",
                mend="mend what it found",
            )


def _finding(check: Check, needs: Needs, host: Host, ignored: bool) -> Finding:
    verdict = check.function(needs, host)
    level = OK if verdict.passed else check.level
    found = verdict.found
    if ignored and level == STOP:
        level, found = WARN, f"{found} (ignored as asked)"
    return Finding(check.name, level, found, verdict.needed, verdict.mend)
