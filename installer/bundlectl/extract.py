"""Write a packed tree to the disk, as its listing says and in no other way.

The archive's headers are compared with what the listing makes of them, byte for byte, so nothing
that is found decides a name, a mode or a link. Reading, decompressing and the hashing of large
files have threads of their own; small files are not worth handing over.
"""

import os
import queue
import threading
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from bundlectl.readahead import DEPTH, ReadAhead
from manifests import archive, tree
from manifests.digests import CHUNK, Hasher, next_of, sha256
from manifests.errors import Damage
from manifests.reader import COPY_AGAIN

#: Hears after each entry how many are written, the bytes of the archive that they took, and how to
#: wait until the digests of all of them were right.
Passed = Callable[[int, int, Callable[[], None]], None]


def ignore_passed(_count: int, _length: int, _settle: Callable[[], None]) -> None:
    """For trees that are not continued."""


def extract(
    stream: ReadAhead,
    entries: Sequence[tree.Entry],
    target: Path,
    done: int = 0,
    length: int = 0,
    passed: Passed = ignore_passed,
) -> None:
    """Write the entries below `target`, a folder of ours that holds the first `done` of them.

    These took the archive's first `length` bytes, and the stream begins after them. Raises Damage
    naming an entry that differs, OSError where the disk fails.
    """
    lane = _HashLane()
    try:
        for count, entry in enumerate(entries[done:], done + 1):
            wanted, zeros = archive.entry_header(entry), archive.padding(entry.size)
            _expect(stream, wanted, entry.path)
            _write(stream, entry, target / entry.path, lane)
            _expect(stream, zeros, entry.path)
            length += len(wanted) + entry.size + len(zeros)
            passed(count, length, lane.settle)
    finally:
        lane.close()
    lane.refuse()
    _expect(stream, archive.trailer(length), "the end of the archive")
    if stream.read(1):
        raise Damage("the end of the archive", "nothing more", "more", mend=COPY_AGAIN)


def keep_only(target: Path, entries: Sequence[tree.Entry]) -> bool:
    """Remove what the entries don't list; whether all that they list is there, by kind and size.

    What is there was compared with its digest when it was written. Raises OSError.
    """
    if target.is_symlink() or not target.is_dir():
        return False
    wanted = {entry.path: entry for entry in entries}
    there = 0
    for path, found in reversed(list(tree.walk(target))):
        entry = wanted.get(path)
        if entry is not None:
            there += _is_like(target / path, found, entry)
        elif found.is_dir(follow_symlinks=False):
            (target / path).rmdir()
        else:
            (target / path).unlink()
    return there == len(wanted)


def _is_like(path: Path, found: os.DirEntry[str], entry: tree.Entry) -> bool:
    if tree.kind_of(found) != entry.kind:
        return False
    if entry.kind == tree.LINK:
        return str(path.readlink()) == entry.target
    return entry.kind == tree.FOLDER or found.stat(follow_symlinks=False).st_size == entry.size


class _HashLane:
    """Hashes large files behind their writing, in order, and remembers the first that differs."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[tree.Entry, memoryview | None] | None] = queue.Queue(DEPTH)
        self._damage: Damage | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        hasher: Hasher = sha256()
        while (item := next_of(self._queue)) is not None:
            entry, view = item
            if view is not None:
                hasher.update(view)
            else:
                self._damage = self._damage or _difference(entry, hasher)
                hasher = sha256()
            self._queue.task_done()

    def add(self, entry: tree.Entry, view: memoryview | None) -> None:
        """The next bytes of a file, or None after its last."""
        self.refuse()
        self._queue.put((entry, view))

    def refuse(self) -> None:
        """Raise the first damage found so far."""
        if self._damage is not None:
            raise self._damage

    def settle(self) -> None:
        """Wait until everything so far is hashed, and refuse what was wrong."""
        self._queue.join()
        self.refuse()

    def close(self) -> None:
        """Wait until everything is hashed, and end the thread."""
        self._queue.put(None)
        self._thread.join()


def _write(stream: ReadAhead, entry: tree.Entry, path: Path, lane: _HashLane) -> None:
    if entry.kind == tree.FOLDER:
        path.mkdir()
        path.chmod(entry.mode())
    elif entry.kind == tree.LINK:
        path.symlink_to(entry.target)
    elif entry.size < CHUNK:
        _write_small(stream, entry, path)
    else:
        _write_large(stream, entry, path, lane)


def _write_small(stream: ReadAhead, entry: tree.Entry, path: Path) -> None:
    data = stream.read(entry.size)
    _check_length(entry, len(data))
    hasher = sha256()
    hasher.update(data)
    damage = _difference(entry, hasher)
    if damage is not None:
        raise damage
    with new_file(path) as handle:
        write_all(handle, data)
        os.fchmod(handle.fileno(), entry.mode())


def _write_large(stream: ReadAhead, entry: tree.Entry, path: Path, lane: _HashLane) -> None:
    count = 0
    with new_file(path) as handle:
        for view in stream.views(entry.size):
            lane.add(entry, view)
            write_all(handle, view)
            count += len(view)
        os.fchmod(handle.fileno(), entry.mode())
    _check_length(entry, count)
    lane.add(entry, None)


def new_file(path: Path) -> FileIO:
    """A new file, never through a link; only its owner can read it until it is complete."""
    return FileIO(_open(path), "r+b")


def write_all(handle: FileIO, data: bytes | memoryview) -> None:
    """Write all of the bytes.

    Raises OSError.
    """
    view = memoryview(data)
    while view:
        view = view[handle.write(view) :]  # a short write is a full disk: the next one says so


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _difference(entry: tree.Entry, hasher: Hasher) -> Damage | None:
    found = hasher.hexdigest()
    same = found == entry.sha256
    return None if same else Damage(entry.path, entry.sha256, found, mend=COPY_AGAIN)


def _check_length(entry: tree.Entry, found: int) -> None:
    if found != entry.size:
        raise Damage(entry.path, f"{entry.size} bytes", f"the end after {found}", mend=COPY_AGAIN)


def _expect(stream: ReadAhead, wanted: bytes, path: str) -> None:
    if wanted and stream.read(len(wanted)) != wanted:
        raise Damage(path, "the header of a listed entry", "another one", mend=COPY_AGAIN)
