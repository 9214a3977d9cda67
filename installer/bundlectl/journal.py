"""Which members of a bundle are on this disk already, verified.

One line per member, appended and synced after the member's bytes were. A line that a kill cut short
is not a line. The journal belongs to one manifest; another bundle has another journal.
"""

import os
from pathlib import Path


def journal_path(prefix: Path, manifest_sha256: str) -> Path:
    """Where the journal of a bundle lies while it is unpacked below a prefix."""
    return prefix / "state/journal" / f"{manifest_sha256}.txt"


class Journal:
    """The members done, in a file of one path per line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        whole, newline, _cut = data.rpartition(b"\n")
        self._done = set(whole.decode("utf-8", "replace").split("\n")) if newline else set()
        self._good = len(whole) + len(newline)

    def __contains__(self, member: str) -> bool:
        return member in self._done

    def add(self, member: str) -> None:
        """Record a member whose bytes are on the disk."""
        with self._path.open("r+b" if self._path.exists() else "x+b", buffering=0) as handle:
            handle.truncate(self._good)
            handle.seek(self._good)
            self._good += handle.write(member.encode() + b"\n")
            os.fsync(handle.fileno())
        self._done.add(member)

    def remove(self) -> None:
        """Forget everything: the release is complete, or is to be done again."""
        self._path.unlink(missing_ok=True)
        self._done.clear()
        self._good = 0
