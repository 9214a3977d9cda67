"""A licence policy as a TOML file: what may go in, what has to be asked about, what may not.

    allow = ["permissive", "weak copyleft", "GPL-3.0-* WITH GCC-exception-*"]
    ask = ["proprietary"]
    deny = ["strong copyleft", "SSPL-*", "wheel/left-pad"]

    [exceptions."wheel/nvidia-*"]
    reason = "agreement of 2026-03-01, file 123"
    until = 2027-03-01

A list holds families (bundler/plan/licences.toml), SPDX identifiers, or components as KIND/NAME;
the latter two may be patterns as of fnmatch, and "*" is everything, stated or not. A declaration
in words that says more than the name of a licence counts as "unknown" too. An exception is for
components, KIND/NAME or KIND/NAME@VERSION; its last day is `until`.
"""

import datetime
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bundler.papers.bill import ADAPTER, CODE, CONDA, MODEL, WHEEL
from bundler.plan import spdx
from bundler.plan.licences import family_names
from manifests.errors import UsageError

ALLOW, ASK, DENY = "allow", "ask", "deny"
#: From what stops nothing to what stops everything.
VERDICTS = (ALLOW, ASK, DENY)
_EXCEPTIONS = "exceptions"
_KINDS = (WHEEL, CONDA, MODEL, ADAPTER, CODE)
_COMPONENTS = f"KIND/NAME, of kind {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"


@dataclass(frozen=True)
class Pardon:
    """Components that are let in whatever their licence."""

    pattern: str
    reason: str
    until: datetime.date | None = None  # its last day


@dataclass(frozen=True)
class Policy:
    """What one file asks for."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    exceptions: tuple[Pardon, ...] = ()

    def of(self, verdict: str) -> tuple[str, ...]:
        """The list of that name."""
        found: tuple[str, ...] = getattr(self, verdict)
        return found


def load(path: Path) -> Policy:
    """Read a policy.

    Raises UsageError with the line or the key where it is missing or none.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", mend="name a policy that exists") from None
    return parse(content, str(path))


def parse(content: bytes, where: str) -> Policy:
    """Read the bytes of a policy; `where` starts the sentences of errors.

    Raises UsageError with the line or the key that is wrong.
    """
    try:
        data = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of the encoding, an integer's length, nesting
        raise UsageError(f"{where}: no TOML: {error}", mend="mend that line") from None
    for key in sorted(data.keys() - {*VERDICTS, _EXCEPTIONS}):
        raise _wrong(where, key, "unknown key", "there are allow, ask, deny and exceptions")
    if not any(data.get(key) for key in VERDICTS):
        raise _wrong(where, "allow, ask, deny", "none of them names anything", "fill one of them")
    lists = {key: _patterns(data.get(key, []), where, key) for key in VERDICTS}
    return Policy(**lists, exceptions=_pardons(data.get(_EXCEPTIONS, {}), where))


def _patterns(value: Any, where: str, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong(where, key, "a list of texts is needed", f'write {key} = ["MIT", …]')
    for one in value:
        if "/" in one and not _can_fit(one):
            raise _wrong(where, key, f"{one!r} fits no component", f"write {_COMPONENTS}")
        if not ("/" in one or one in family_names() or spdx.is_pattern(one)):
            raise _wrong(
                where,
                key,
                f"{one!r} fits no licence of SPDX's list and is no family",
                f"families are {', '.join(family_names())}; components are {_COMPONENTS}; "
                "licences of one's own start with LicenseRef-",
            )
    return tuple(value)


def _can_fit(pattern: str) -> bool:
    """Whether a pattern, KIND/NAME or KIND/NAME@VERSION, can name a component of some bundle."""
    kind, _, name = pattern.partition("/")
    return bool(name.partition("@")[0]) and any(fnmatchcase(one, kind) for one in _KINDS)


def _pardons(value: Any, where: str) -> tuple[Pardon, ...]:
    if not isinstance(value, dict):
        raise _wrong(where, _EXCEPTIONS, "a table is needed", 'write [exceptions."wheel/NAME"]')
    return tuple(_pardon(pattern, one, where) for pattern, one in value.items())


def _pardon(pattern: str, value: Any, where: str) -> Pardon:
    key = f"{_EXCEPTIONS}.{pattern!r}"
    if not _can_fit(pattern):
        raise _wrong(where, key, "names no component", f"write {_COMPONENTS}")
    if not isinstance(value, dict) or value.keys() - {"reason", "until"}:
        raise _wrong(where, key, "reason and until are needed, and nothing else", "write both")
    reason, until = value.get("reason"), value.get("until")
    if not isinstance(reason, str) or not reason.strip():
        raise _wrong(where, f"{key}.reason", "a reason in words is needed", "say why, for readers")
    # A datetime is a date too.
    if until is not None and type(until) is not datetime.date:
        told = repr(until) if isinstance(until, str) else type(until).__name__
        raise _wrong(where, f"{key}.until", f"no date: {told}", "write until = 2027-01-31")
    return Pardon(pattern, " ".join(reason.split()), until)


def _wrong(where: str, key: str, what: str, mend: str) -> UsageError:
    return UsageError(f"{where}: {key}: {what}", mend=mend)
