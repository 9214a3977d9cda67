"""Take one member of a bundle from the stream to its place, or the rest of it.

Files continue after their last synced block, hashed again from the disk (`blocks`). Trees continue
at the start of a zstd frame (`frames`): the entries before it were compared with their own digests
when they were written, and the rest is now, so that the tree is proven though the archive's own
digest can't be; the medium passes over what came before. Either way the medium isn't read again.
"""

import gzip
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO, cast

from bundlectl.blocks import Growing, reopen
from bundlectl.extract import extract, keep_only, new_file
from bundlectl.frames import UNREADABLE, Frames, Mark
from bundlectl.journal import Journal
from bundlectl.readahead import ReadAhead
from bundlectl.syncing import sync
from manifests import bundle, tree
from manifests.digests import CountingReader, Readable, chunks
from manifests.errors import Damage, IntegrityError
from manifests.reader import COPY_AGAIN, BundleReader


class StaleStart(Damage):
    """A member that was continued is wrong: its start on the disk may be, and is not used again."""


@dataclass(frozen=True)
class Taker:
    """Takes members of a bundle, and notes in the journal how far they are.

    `progress` hears of a member's bytes, also of those that were there.
    """

    reader: BundleReader
    journal: Journal
    progress: Callable[[int], None]

    def file(self, member: bundle.Member, root: Path, path: str) -> None:
        """Write a member that is a file. Its name below `root` is not yet synced.

        Raises Damage where the medium is wrong, StaleStart where the medium or the start is.
        """
        target = with_folders(root, path)
        handle = self._continued(member, target)
        if handle is not None:
            self._refusing(member, True, partial(self._file, member, handle))
            return
        target.unlink(missing_ok=True)
        self._refusing(member, False, partial(self._file, member, new_file(target)))

    def _continued(self, member: bundle.Member, target: Path) -> FileIO | None:
        numbers = self.journal.begun(member.path)
        if len(numbers) != 1 or numbers[0] > member.size:
            return None
        return reopen(target, numbers[0])

    def _file(self, member: bundle.Member, handle: FileIO) -> None:
        with handle, self.reader.member(member) as stream:
            stream.take_over(chunks(CountingReader(handle, self.progress)))
            ahead = ReadAhead(CountingReader(stream, self.progress))
            try:
                with Growing(handle, partial(self.journal.mark, member.path)) as growing:
                    for view in ahead.views():
                        growing.write(view)
                    growing.settle()
                    os.fchmod(handle.fileno(), 0o644)
            finally:
                ahead.close()

    def archive(self, member: bundle.Member, entries: Sequence[tree.Entry], target: Path) -> None:
        """Write a member that is an archive of `entries`.

        Raises as `file` does.
        """
        done, start = self._kept(member, entries, target)
        if not done:
            self.journal.forget(member.path)  # what it says of the tree ends here
            remove(target)
            target.mkdir()
            target.chmod(0o755)
        rest = _Rest(member, entries, target, done, start)
        self._refusing(member, done > 0, partial(self._tree, rest))

    def _kept(
        self, member: bundle.Member, entries: Sequence[tree.Entry], target: Path
    ) -> tuple[int, Mark]:
        """How many entries are there, and where the stream goes on after them."""
        numbers = self.journal.begun(member.path)
        if len(numbers) == 3 and numbers[2] < member.size and numbers[0] < len(entries):
            done, plain, compressed = numbers
            if keep_only(target, entries[:done]):
                return done, Mark(plain, compressed)
        return 0, Mark(0, 0)

    def _tree(self, rest: "_Rest") -> None:
        take = self.reader.excerpt if rest.done else self.reader.member
        with take(rest.member) as stream:
            stream.pass_over(rest.start.compressed)
            self.progress(rest.start.compressed)
            compressed = ReadAhead(CountingReader(stream, self.progress))
            raw, marks = _decompressed(rest, compressed)
            plain = ReadAhead(raw)
            noted = _Noted(rest, marks, self.journal)
            try:
                extract(plain, rest.entries, rest.target, rest.done, rest.start.plain, noted.passed)
            except UNREADABLE as error:
                # The bytes are wrong, as the digest would say at the end; this is only earlier.
                raise Damage(
                    rest.member.path, "an archive that can be read", str(error), mend=COPY_AGAIN
                ) from None
            finally:
                # In this order: the second one's thread may wait for the first one's bytes.
                plain.close()
                compressed.close()
            self.progress(stream.left)

    def _refusing(self, member: bundle.Member, begun: bool, take: Callable[[], None]) -> None:
        """Let nothing be continued that turned out wrong."""
        try:
            take()
        except Damage as damage:
            self.journal.forget(member.path)
            if not begun:
                raise
            raise StaleStart(
                damage.path, damage.expected, damage.found, mend=damage.mend
            ) from damage


@dataclass(frozen=True)
class _Rest:
    """What is to be taken of a tree."""

    member: bundle.Member
    entries: Sequence[tree.Entry]
    target: Path
    done: int  # entries that are there
    start: Mark  # where the stream goes on after them


class _Noted:
    """Enters in the journal the entries before the end of each frame, verified and synced."""

    def __init__(self, rest: _Rest, marks: deque[Mark], journal: Journal) -> None:
        self._rest = rest
        self._marks = marks
        self._journal = journal
        self._ends: dict[int, int] = {}  # bytes of the plain stream → entries before them

    def passed(self, count: int, plain: int, settle: Callable[[], None]) -> None:
        """`count` entries, the first `plain` bytes, are written; `settle` waits for their digests.

        A frame's end is seen a little before or after what it held was written.
        """
        self._ends[plain] = count
        while self._marks and self._marks[0].plain <= plain:
            mark = self._marks.popleft()
            entries = self._ends.get(mark.plain)
            if entries is None:  # a frame that ends inside an entry is no place to continue from
                continue
            settle()
            sync(self._rest.target)
            self._journal.mark(self._rest.member.path, entries, *mark)
            self._ends = {end: n for end, n in self._ends.items() if end > mark.plain}


def _decompressed(rest: _Rest, compressed: ReadAhead) -> tuple[Readable, deque[Mark]]:
    if rest.member.role == bundle.ENVIRONMENT:
        frames = Frames(compressed, rest.start)
        return frames, frames.marks
    return cast(Readable, gzip.GzipFile(fileobj=cast(BinaryIO, compressed), mode="rb")), deque()


def with_folders(root: Path, path: str) -> Path:
    """The place of a file, whose folders are made where they are missing."""
    folder = root
    for part in path.split("/")[:-1]:
        folder = folder / part
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)
    return root / path


def remove(folder: Path) -> None:
    """Remove a folder of ours.

    Raises IntegrityError where a link lies in its place.
    """
    if folder.is_symlink():
        raise IntegrityError(f"{folder}: a link where a folder has to be", mend="remove it")
    if folder.exists():
        shutil.rmtree(folder)
