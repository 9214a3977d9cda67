"""What was found: one JSON document a line, on the disk as soon as it is known."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figures:
    """Two files: `out` gets what this call finds, `history` what all calls have found."""

    out: Path | None
    history: Path

    def add(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False) + "\n"
        for path in filter(None, (self.history, self.out)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())

    def records(self) -> list[dict[str, Any]]:
        """All of the history; the last line of a run that was cut off is passed over."""
        found = []
        text = self.history.read_text("utf-8") if self.history.exists() else ""
        for line in text.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def done(self) -> frozenset[str]:
        """Steps that have succeeded, and need not be repeated."""
        return frozenset(one["step"] for one in self.records() if one["ok"])
