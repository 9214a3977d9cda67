"""What `bundle create --dry-run` shows: everything that can be said without a download."""

from dataclasses import dataclass
from typing import Any

from bundler.create import Draft
from manifests.console import size
from manifests.records import to_data
from wheelhouse.sources import public_place


@dataclass(frozen=True)
class Plan:
    """The answer of a dry run."""

    model: str
    model_bytes: int  # 0: not known without a download
    stack: str
    summary: str
    gpus: tuple[str, ...]
    python: str
    glibc: str
    channel: str
    index: tuple[str, ...]
    flavours: tuple[str, ...]
    architectures: tuple[str, ...]
    output: str
    notes: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """The plan as --json prints it."""
        record: dict[str, Any] = to_data(self)
        return record

    def text(self) -> str:
        """The plan on one screen."""
        weights = f" ({size(self.model_bytes)})" if self.model_bytes else ""
        rows = [
            ("model", f"{self.model}{weights}"),
            ("target", f"{', '.join(self.gpus)}, glibc {self.glibc}, Python {self.python}"),
            ("stack", f"{self.stack}: {self.summary}"),
            ("serves", ", ".join(self.architectures)),
            ("channel", self.channel),
            ("wheels", ", ".join(self.index)),
            *(("flavour", line) for line in self.flavours),
            ("output", self.output),
            *(("note", note) for note in self.notes),
        ]
        lines = [f"{name:>8}  {value}" for name, value in rows]
        return "\n".join([*lines, "nothing was downloaded or written (--dry-run)"])


def plan(draft: Draft) -> Plan:
    """Say what would be made.

    Raises what looking at the model raises; a folder is read, a Hub is asked for its listing.
    """
    choice, request = draft.choice, draft.request
    model = choice.model.lock()
    flavours = [
        f"{flavour.name}: {flavour.summary}"
        + (f" (where a source has {', '.join(flavour.needs)})" if flavour.needs else "")
        for flavour in choice.stack.flavours
    ]
    return Plan(
        model=f"{model.name} from {model.source}, revision {model.revision[:12]}",
        model_bytes=sum(file.size for file in model.files),
        stack=choice.stack.name,
        summary=choice.stack.summary,
        gpus=choice.target.gpus,
        python=choice.target.python,
        glibc=choice.target.glibc,
        channel=public_place(request.channel),
        index=draft.sources.public(),
        flavours=tuple(flavours),
        architectures=choice.stack.architectures,
        output=str(request.output),
        notes=draft.sources.ignored,
    )
