"""The files of a restored folder while they become whole."""

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from manifests.console import Progress
from manifests.digests import BackgroundHasher, hash_file
from manifests.digests import sha256 as new_hasher
from manifests.errors import IntegrityError
from manifests.medium import INSTALLER
from manifests.parity import front
from manifests.parity.codec import Codec
from manifests.parity.finish import FROM_SOURCE, write_at
from manifests.parity.scheme import ROWS, Run, Scheme
from manifests.parity.shelf import Shelf

_MOST_FINDINGS = 20


class Mending:
    """The files of the new folder while they become whole."""

    def __init__(self, shelf: Shelf, scheme: Scheme, work: Path) -> None:
        self._shelf = shelf
        self._scheme = scheme
        self._table = front.read_table(shelf, scheme)
        self._out = {e.name: (work / e.name).open("x+b", buffering=0) for e in scheme.extents}
        self._work = work
        self._bad: dict[int, Run] = {}
        self._damaged: dict[str, None] = {}  # in order
        self._digests: dict[str, str] = {}
        self.rebuilt = 0

    def close(self) -> None:
        """Close all files."""
        for out in self._out.values():
            out.close()

    def damaged_files(self) -> tuple[str, ...]:
        """The files that were not whole."""
        return tuple(self._damaged)

    def copy(self, progress: Progress) -> None:
        """Take over every block that is right."""
        protected = {file.name for file in self._scheme.files}
        for extent in self._scheme.extents:
            self._shelf.ask_for(extent.name)
            out, hasher = self._out[extent.name], BackgroundHasher(new_hasher())
            whole = extent.name in protected
            try:
                for run in extent.runs():
                    data = self._good(run)
                    if data is None:
                        self._damaged[run.name] = None
                        if twin := self._scheme.twin(run):
                            data = self._good(run, twin)
                    if data is None:
                        self._bad[run.number] = run
                        whole = False
                    else:
                        hasher.update(data)
                        write_at(out.fileno(), data, run.offset)
                    progress(run.size)
            finally:
                digest = hasher.hexdigest()  # which ends its thread
            self._shelf.close()
            out.truncate(extent.size)
            if whole:
                self._digests[extent.name] = digest

    def _good(self, run: Run, name: str = "") -> bytes | None:
        """A block as it was, from its own file or from the one named."""
        wanted = self._table.digest(run.number)
        if wanted is None:
            return None
        for data in self._shelf.read(name or run.name, run.offset, run.size):
            if sha256(data).digest() == wanted:
                return data
        return None

    def mend(self, codec: Codec) -> None:
        """Rebuild all that is missing.

        Raises IntegrityError where a column lacks more blocks than it has parity.
        """
        columns: dict[int, list[int]] = {}
        for number in self._bad:
            row, column = self._scheme.place(number)
            columns.setdefault(column, []).append(row)
        beyond = [c for c, rows in columns.items() if len(rows) > self._scheme.parity]
        if beyond:
            raise self._lost(beyond, columns)
        for column, missing in columns.items():
            known: dict[int, bytes] = {}
            for row in range(ROWS + self._scheme.parity):
                if len(known) == ROWS:
                    break
                if row not in missing:
                    known[row] = self._block(row, column)
            for row, data in zip(
                sorted(missing), codec.rebuild(known, sorted(missing)), strict=True
            ):
                self._place(row, column, data)

    def _block(self, row: int, column: int) -> bytes:
        """A block of the copy, with zeros to its full size."""
        number = self._scheme.at(row, column)
        if number is None:
            return bytes(self._scheme.block)
        run = self._scheme.run(number)
        data = os.pread(self._out[run.name].fileno(), run.size, run.offset)
        return data.ljust(self._scheme.block, b"\0")

    def _place(self, row: int, column: int, data: bytes) -> None:
        number = self._scheme.at(row, column)
        assert number is not None
        run = self._bad[number]
        data = data[: run.size]
        digest = sha256(data).digest()
        wanted = self._table.digest(number)
        if wanted is not None and digest != wanted:
            raise IntegrityError(
                f"{run.name}: what the parity gives for bytes from {run.offset} is not what was "
                "there",
                why="the parity was made for other bytes, or was altered",
                mend=FROM_SOURCE,
            )
        write_at(self._out[run.name].fileno(), data, run.offset)
        self.rebuilt += 1

    def _lost(self, beyond: Sequence[int], columns: Mapping[int, Sequence[int]]) -> IntegrityError:
        """What can't be rebuilt: the missing blocks of the columns that lack too many."""
        numbers = sorted(
            number
            for column in beyond
            for row in columns[column]
            if (number := self._scheme.at(row, column)) is not None
        )
        runs = [self._bad[number] for number in numbers]
        places = list(_joined(runs))
        worst = max(len(columns[column]) for column in beyond)
        findings = [f"{name}: bytes {start:,} to {end - 1:,}" for name, start, end in places]
        if len(findings) > _MOST_FINDINGS:
            rest = len(findings) - _MOST_FINDINGS
            findings = [*findings[:_MOST_FINDINGS], f"and {rest} more places"]
        return IntegrityError(
            f"too much is lost: {sum(run.size for run in runs):,} bytes can't be rebuilt",
            findings=findings,
            why=f"in {len(beyond)} of {self._scheme.columns} columns more than "
            f"{self._scheme.parity} of {ROWS + self._scheme.parity} blocks are missing "
            f"(up to {worst})",
            mend=FROM_SOURCE,
        )

    def finish(self) -> dict[str, str]:
        """Write the ends of the parity files; the sha256 of every file, all on the disk."""
        self._complete_table()
        start, end = front.render(self._scheme, self._table.dump())
        spares = {spare.name for spare in self._scheme.spares}
        for extent in self._scheme.extents:
            out = self._out[extent.name]
            if extent.name in spares:
                write_at(out.fileno(), start, 0)
                write_at(out.fileno(), end, extent.end)
            os.fsync(out.fileno())
            os.fchmod(out.fileno(), 0o755 if extent.name == INSTALLER else 0o644)
            if extent.name not in self._digests:
                self._digests[extent.name] = hash_file(self._work / extent.name)
        return self._digests

    def _complete_table(self) -> None:
        """Digests of which no copy was left, from what has been rebuilt."""
        lost = [run for number, run in self._bad.items() if self._table.digest(number) is None]
        for run in lost:
            data = os.pread(self._out[run.name].fileno(), run.size, run.offset)
            self._table.put(run.number, sha256(data).digest())


def _joined(runs: Sequence[Run]) -> Iterator[tuple[str, int, int]]:
    """Blocks that follow on each other, as (file, first byte, byte after the last)."""
    place: tuple[str, int, int] | None = None
    for run in runs:
        if place is not None and place[0] == run.name and place[2] == run.offset:
            place = (run.name, place[1], run.offset + run.size)
            continue
        if place is not None:
            yield place
        place = (run.name, run.offset, run.offset + run.size)
    if place is not None:
        yield place
