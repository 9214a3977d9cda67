"""Does the host fit? Each check says what was found, what is needed, and the mend."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bundlectl.checks import CHECKS, LEVELS, STOP, WARN, Check
from bundlectl.checks import Needs as Needs
from bundlectl.host import Host
from manifests.errors import BundleError, FilesystemError, TargetError, UsageError

#: How a group of findings is headed, by level.
_HEADS = {"stop": "stops", "warn": "warnings", "info": "notes"}


@dataclass(frozen=True)
class Finding:
    """What one check says; `level` is how bad it is where it has not passed."""

    name: str
    level: str  # "stop", "warn" or "info"
    passed: bool
    found: str
    needed: str = ""
    mend: str = ""
    ignored: bool = False  # it was asked to be no more than a warning

    @property
    def weight(self) -> str:
        """The level that counts: an ignored check never stops anything."""
        return WARN if self.ignored and self.level == STOP else self.level

    @property
    def stops(self) -> bool:
        """Whether nothing can go on."""
        return not self.passed and self.weight == STOP

    def line(self) -> str:
        """The finding on one line."""
        found = f"{self.found} (ignored as asked)" if self.ignored else self.found
        needed = f", needed: {self.needed}" if self.needed else ""
        mend = f" — {self.mend}" if self.mend and not self.passed else ""
        return f"{self.name}: {found}{needed}{mend}"


def rounded(sizes: Iterable[int], block: int) -> int:
    """Bytes that files of these sizes take on a file system that gives whole blocks."""
    return sum(-(-size // block) * block for size in sizes)


def examine(
    needs: Needs,
    host: Host,
    ignore: frozenset[str] = frozenset(),
    checks: Sequence[Check] = CHECKS,
) -> tuple[Finding, ...]:
    """Every check's finding, the worst first; a check in `ignore` that fails is but a warning.

    Raises UsageError where `ignore` names a check that does not exist or can't be ignored.
    """
    _check_ignored(ignore)
    findings = [_finding(check, needs, host, check.name in ignore) for check in checks]
    return tuple(sorted(findings, key=lambda one: (one.passed, LEVELS.index(one.weight))))


def refuse(findings: Sequence[Finding]) -> None:
    """Stop where a finding says so. Raises the error of `refusal`."""
    error = refusal(findings)
    if error is not None:
        raise error


def refusal(findings: Sequence[Finding]) -> BundleError | None:
    """Why these findings stop everything; None where they don't.

    A FilesystemError where the file system is all that is wrong, else a TargetError.
    """
    stops = [finding for finding in findings if finding.stops]
    if not stops:
        return None
    kinds = {check.error for check in CHECKS for stop in stops if check.name == stop.name}
    kind = FilesystemError if kinds == {FilesystemError} else TargetError
    if len(stops) == 1:
        (stop,) = stops
        needed = f", needed: {stop.needed}" if stop.needed else ""
        return kind(f"this host does not fit: {stop.name}: {stop.found}{needed}", mend=stop.mend)
    return kind(
        f"this host does not fit: {len(stops)} checks failed",
        findings=[stop.line() for stop in stops],
        mend="mend each of them, then run the same command again",
    )


def warnings(findings: Iterable[Finding]) -> list[Finding]:
    """What may go wrong later."""
    return [finding for finding in findings if not finding.passed and finding.weight == WARN]


def report(findings: Sequence[Finding], *, every: bool = False) -> str:
    """The findings as a person reads them, in groups; those that passed are but counted.

    With `every` they are told too.
    """
    lines = []
    for level in LEVELS:
        group = [one for one in findings if not one.passed and one.weight == level]
        lines += [f"{_HEADS[level]}:"] * bool(group) + [f"  {one.line()}" for one in group]
    passed = [one for one in findings if one.passed]
    lines.append(f"{len(passed)} of {len(findings)} checks passed")
    return "\n".join([*lines, *(f"  {one.line()}" for one in passed if every)])


def table() -> str:
    """The table of checks: name, level, what it looks at."""
    width = max(len(check.name) for check in CHECKS)
    order = sorted(CHECKS, key=lambda check: LEVELS.index(check.level))
    return "\n".join(f"{check.name:<{width}}  {check.level}  {check.about}" for check in order)


def _check_ignored(ignore: frozenset[str]) -> None:
    known = {check.name: check for check in CHECKS}
    for name in sorted(ignore):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "see: bundlectl preflight --list"
            raise UsageError(f"there is no check {name!r} to ignore", mend=hint)
        if not known[name].can_be_ignored:
            raise UsageError(
                f"the check {name!r} can't be ignored",
                why="the installation would fail half-way",
                mend="mend what it found",
            )


def _finding(check: Check, needs: Needs, host: Host, ignored: bool) -> Finding:
    verdict = check.judge(needs, host)
    return Finding(
        check.name,
        check.level,
        verdict.passed,
        verdict.found,
        verdict.needed,
        "" if verdict.passed else verdict.mend or check.mend,
        ignored and not verdict.passed,
    )
