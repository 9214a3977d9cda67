"""How far a bundle is on this disk: the members that are there, and how much of a large one.

One line per member, `MEMBER`, appended and synced (fsync) after the member's bytes were; and before
it one line for each block of a large member, `MEMBER<tab>NUMBER…`, after the block's bytes were
synced. What the numbers mean is the writer's; the last line counts. A line that a kill cut short is
not a line. The journal belongs to one manifest; another bundle has another journal.

The journal's name in its folder is not synced: a journal that a power cut took says "nothing is
there", which costs time and no more.
"""

import os
import re
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
#: Member names hold no tab; see manifests.names.
_BLOCK = re.compile(r"([^\t]+)((?:\t[0-9]{1,19})+)")


def journal_path(prefix: Path, manifest_sha256: str) -> Path:
    """Where the journal of a bundle lies while it is unpacked below a prefix."""
    return prefix / "state/journal" / f"{manifest_sha256}.txt"


def forget_others(journal: Path) -> None:
    """Remove the journals of other bundles: they may name files that this one writes anew."""
    for path in journal.parent.glob("*.txt"):
        if path != journal:
            path.unlink()


class Journal:
    """The members done and begun, in a file of one line for each step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        whole, newline, _cut = data.rpartition(b"\n")
        self._done: set[str] = set()
        self._begun: dict[str, tuple[int, ...]] = {}
        for line in whole.decode("utf-8", "replace").split("\n") if newline else ():
            self._take(line)
        self._good = len(whole) + len(newline)

    def __contains__(self, member: str) -> bool:
        return member in self._done

    def begun(self, member: str) -> tuple[int, ...]:
        """The last mark of a member that is not done; empty without one."""
        return self._begun.get(member, ())

    def add(self, member: str) -> None:
        """Record a member whose bytes are on the disk."""
        self._append(member)

    def mark(self, member: str, *numbers: int) -> None:
        """Record how much of a member is on the disk; one number at least, none negative."""
        self._append("\t".join((member, *map(str, numbers))))

    def forget(self, member: str) -> None:
        """Take back what was recorded of a member that is not done."""
        if self.begun(member):
            self.mark(member, 0)

    def remove(self) -> None:
        """Forget everything: the release is complete, or is to be done again."""
        self._path.unlink(missing_ok=True)
        self._done.clear()
        self._begun.clear()
        self._good = 0

    def _take(self, line: str) -> None:
        block = _BLOCK.fullmatch(line)
        if block is None:
            self._done.add(line)
            self._begun.pop(line, None)
        else:
            numbers = tuple(map(int, block[2].split()))
            self._begun[block[1]] = numbers if any(numbers) else ()

    def _append(self, line: str) -> None:
        with os.fdopen(os.open(self._path, _FLAGS, 0o644), "r+b", buffering=0) as handle:
            handle.truncate(self._good)
            handle.seek(self._good)
            self._good += handle.write(line.encode() + b"\n")
            os.fsync(handle.fileno())
        self._take(line)
