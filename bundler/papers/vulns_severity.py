"""How bad a vulnerability is, by what its record says of itself.

CVSS base scores and their levels: https://www.first.org/cvss/. The one place that knows the cvss
library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError

from manifests.vulns import LEVELS, UNKNOWN

#: The schema's types of vectors: https://ossf.github.io/osv-schema/#severitytype-field.
_KINDS = {"CVSS_V2": CVSS2, "CVSS_V3": CVSS3, "CVSS_V4": CVSS4}
#: Lowest base score of each level, from CVSS 3 on. CVSS 2 has no word for the worst of them, and a
#: score of 9 there is as bad as one here.
_FLOORS = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.0, "low"))
#: GitHub's word for the second of four levels.
_WORDS = {"moderate": "medium"}


@dataclass(frozen=True)
class Severity:
    """The highest of what is said."""

    level: str = UNKNOWN
    score: str = ""  # "9.8"
    vector: str = ""

    @property
    def rank(self) -> tuple[int, float]:
        """By which the worse of two is found."""
        known = LEVELS.index(self.level) if self.level in LEVELS else -1
        return known, float(self.score or 0)


def of(stated: Sequence[Mapping[str, Any]], specific: Mapping[str, Any]) -> Severity:
    """By the record's vectors; where none can be read, by the word of its database."""
    found = [one for entry in stated if (one := _vector(entry)) is not None]
    return worst(found) if found else Severity(_word(specific.get("severity")))


def worst(found: Sequence[Severity]) -> Severity:
    """The worst of several."""
    return max(found, key=lambda one: (one.rank, one.vector), default=Severity())


def _vector(entry: Mapping[str, Any]) -> Severity | None:
    kind = _KINDS.get(str(entry.get("type")))
    vector = str(entry.get("score", ""))
    if kind is None:
        return None
    try:
        score = float(kind(vector).base_score)
    except (CVSSError, ValueError, KeyError):
        return None
    level = next(level for floor, level in _FLOORS if score >= floor)
    return Severity(level, f"{score:.1f}", vector)


def _word(word: Any) -> str:
    lower = word.lower() if isinstance(word, str) else ""
    lower = _WORDS.get(lower, lower)
    return lower if lower in LEVELS else UNKNOWN
