"""What every step is given."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu.isolated.commands import Clock
from tests.gpu.isolated.installed import Site

Record = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """The machine, the medium, the installation, and what was asked for."""

    media: Path
    site: Site
    work: Path
    hand_back: Path | None  # where files go that somebody takes away
    into_python: Path | None
    parameters: float
    gpu: bool
    streams: tuple[int, ...]
    rounds: int
    answer: int  # tokens of each answer of the load
    by_hand: tuple[str, ...]
    piece: int  # the first of the caches' that is handed back
    bare: Record = field(default_factory=dict)  # what the namespace is like

    @property
    def clock(self) -> Clock:
        return self.site.clock

    @property
    def tiny(self) -> str:
        """The model that the bundle brought."""
        return self.site.manifest.model.name

    @property
    def large(self) -> str:
        """The one that was made here, or the bundle's where none was."""
        name = made_name(self.parameters)
        return name if name in self.site.models() else self.tiny

    def keep_log(self, name: str) -> str:
        """The server's log, of which a copy is kept."""
        text = self.site.log.read_text(errors="replace") if self.site.log.exists() else ""
        place = self.work / "logs" / f"{name}.log"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return text


def made_name(parameters: float) -> str:
    return f"qwen3.5-noise-{parameters / 1e9:.3g}b"
