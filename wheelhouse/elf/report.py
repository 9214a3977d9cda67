"""What `bundle elf` shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests.records import to_data
from wheelhouse.elf.findings import GLIBC, MISSING, Judgement
from wheelhouse.elf.floors import Floor, floors
from wheelhouse.elf.inventory import ElfInventory
from wheelhouse.elf.judge import judge
from wheelhouse.elf.libraries import known

#: Findings of a part of an environment that its other parts may answer.
_ASKED = "asked of other packages or of the host"


@dataclass(frozen=True)
class Report:
    """A place's libraries, against a glibc where one was named."""

    place: str
    glibc: str  # of the target; "" where none was named
    files: int
    machines: tuple[str, ...]
    whole: bool  # an environment with its interpreter, or only a part of one
    floors: tuple[Floor, ...]
    judgement: Judgement

    @property
    def fits(self) -> bool:
        """Whether the target's glibc is new enough; True where none was named."""
        return not any(finding.kind == GLIBC for finding in self.judgement.errors)

    def as_record(self) -> dict[str, Any]:
        """The report as --json prints it."""
        return {**to_data(self), "fits": self.fits}

    def text(self) -> str:
        """The report for a terminal."""
        errors = self.judgement.errors
        asked = () if self.whole else tuple(f for f in errors if f.kind == MISSING)
        problems = tuple(f for f in errors if f not in asked)
        lines = [
            f"{self.place}: {self.files} ELF files for {', '.join(self.machines) or 'nothing'}"
        ]
        lines += ["floors", *map(_floor_line, self.floors)] if self.floors else []
        for title, findings in (
            ("problems", problems),
            (_ASKED, asked),
            ("notes", self.judgement.notes),
        ):
            lines += [title, *(f"  {finding.text()}" for finding in findings)] if findings else []
        return "\n".join([*lines, *self._verdict()])

    def _verdict(self) -> list[str]:
        if not self.glibc:
            return []
        return [f"glibc {self.glibc} {'suffices' if self.fits else 'does not suffice'}"]


def report(place: Path, inventory: ElfInventory, glibc: str, winning: tuple[str, ...]) -> Report:
    """Examine a place. `winning` as for `judge`, but those that are not there are left out."""
    there = {file.path for file in inventory.files} | {link.path for link in inventory.links}
    present = [name for name in winning if f"lib/{name}" in there]
    return Report(
        place=str(place),
        glibc=glibc,
        files=len(inventory.files),
        machines=tuple(sorted({file.machine for file in inventory.files})),
        whole=inventory.has_interpreter,
        floors=floors(inventory.files, known().glibc),
        judgement=judge(inventory, glibc=glibc, winning=present),
    )


def _floor_line(floor: Floor) -> str:
    count = len(floor.paths)
    files = f"{count} file" if count == 1 else f"{count} files"
    more = " …" if count > 3 else ""
    return f"  {floor.family:<8}{floor.version:<8}{files:<11}{', '.join(floor.paths[:3])}{more}"
