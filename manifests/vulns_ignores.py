"""The list of vulnerabilities that somebody has looked at and takes: with a reason, until a day.

```toml
[[ignore]]
id = "CVE-2026-34756"        # any of its names; or pickle:MODEL/FILE
reason = "the port is not reachable from outside"
expires = 2027-03-31         # the last day on which it holds
```
"""

import datetime
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import regular
from manifests.errors import IntegrityError, UsageError

_FIELDS = {"id", "reason", "expires"}
_FORM = 'each is: [[ignore]], id = "CVE-…", reason = "…", expires = 2027-03-31'


@dataclass(frozen=True)
class Ignore:
    """One entry."""

    id: str
    reason: str
    expires: str  # "2027-03-31": the last day on which it holds

    def holds(self, today: datetime.date) -> bool:
        """Whether it still counts."""
        return today <= datetime.date.fromisoformat(self.expires)


def load(path: Path) -> tuple[Ignore, ...]:
    """Read a list.

    Raises UsageError where it is missing or not one.
    """
    try:
        text = regular.read(path).decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", mend="name a list that exists") from None
    except (UnicodeDecodeError, IntegrityError) as error:
        raise UsageError(f"{path}: not a list of ignored vulnerabilities ({error})") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> tuple[Ignore, ...]:
    """The entries of a list; `where` starts the sentences of errors.

    Raises UsageError, which names every entry that is wrong.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, a number or a nesting without end
        raise UsageError(f"{where}: not TOML ({error})", mend=_FORM) from None
    entries = data.get("ignore", [])
    odd = sorted(set(data) - {"ignore"})
    if odd or not isinstance(entries, list):
        raise UsageError(f"{where}: {', '.join(odd) or 'ignore'} is not understood", mend=_FORM)
    wrong: list[str] = []
    found: list[Ignore] = []
    for number, entry in enumerate(entries, 1):
        if problem := _problem(entry, {one.id for one in found}):
            wrong.append(f"entry {number}: {problem}")
        else:
            id_, reason = entry["id"].strip(), " ".join(entry["reason"].split())
            found.append(Ignore(id_, reason, entry["expires"].isoformat()))
    if wrong:
        raise UsageError(
            f"{where}: {len(wrong)} entries can't be taken",
            why="what is ignored without a reason and a day is forgotten",
            mend=_FORM,
            findings=wrong,
        )
    return tuple(found)


def _problem(entry: Any, seen: set[str]) -> str:
    """What is wrong with an entry; empty where it is right."""
    if not isinstance(entry, dict):
        return "not a table"
    if odd := sorted(set(entry) - _FIELDS):
        return f"{', '.join(odd)} is not understood"
    for name in ("id", "reason"):
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            return f"no {name}"
    if type(entry.get("expires")) is not datetime.date:
        return f"{entry['id']}: expires is no day, such as 2027-03-31"
    if entry["id"].strip() in seen:
        return f"{entry['id']}: twice"
    return ""
