"""Where the time of a start went; the last one is kept for `status`."""

import contextlib
from dataclasses import dataclass

from bundlectl.layout import Layout
from manifests import canonical, regular, synced
from manifests.errors import IntegrityError
from manifests.records import from_data, to_data


@dataclass(frozen=True)
class Spent:
    """Milliseconds of a start, one part after the other."""

    checks: int  # from the command to the server's process: ours
    listening: int  # from there until it answered /health: imports, weights, compiling
    answer: int  # from there until it had answered a completion

    def text(self) -> str:
        """The parts for people."""
        parts = ("checks", self.checks), ("loading", self.listening), ("first answer", self.answer)
        return ", ".join(f"{name} {value / 1000:.1f} s" for name, value in parts)


def keep(layout: Layout, spent: Spent) -> None:
    """Remember a start. It is no more than a note: a kill or a full disk may lose it."""
    with contextlib.suppress(OSError):
        synced.replace(layout.cache / "last-start.json", canonical.dumps(to_data(spent)), 0o600)


def last(layout: Layout) -> Spent | None:
    """The last start's; None where nothing is known."""
    try:
        data = canonical.loads(regular.read(layout.cache / "last-start.json"))
        return from_data(Spent, data, "the last start")
    except (OSError, ValueError, IntegrityError):
        return None
