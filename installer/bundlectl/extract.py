"""Write a packed tree to the disk, as its listing says and in no other way.

The archive's headers are compared with what the listing makes of them, byte for byte, so nothing
that is found decides a name, a mode or a link. Reading, decompressing and the hashing of large
files have threads of their own; small files are not worth handing over.
"""

import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from bundlectl.readahead import DEPTH, ReadAhead
from manifests import archive, tree
from manifests.digests import CHUNK, Hasher, sha256
from manifests.errors import Damage
from manifests.reader import COPY_AGAIN


def extract(stream: ReadAhead, entries: Sequence[tree.Entry], target: Path) -> None:
    """Write the entries below `target`, an empty folder of ours.

    Raises Damage naming an entry that differs, OSError where the disk fails.
    """
    length = 0
    lane = _HashLane()
    try:
        for entry in entries:
            wanted, zeros = archive.entry_header(entry), archive.padding(entry.size)
            _expect(stream, wanted, entry.path)
            _write(stream, entry, target / entry.path, lane)
            _expect(stream, zeros, entry.path)
            length += len(wanted) + entry.size + len(zeros)
    finally:
        lane.close()
    lane.refuse()
    _expect(stream, archive.trailer(length), "the end of the archive")
    if stream.read(1):
        raise Damage("the end of the archive", "nothing more", "more", mend=COPY_AGAIN)


class _HashLane:
    """Hashes large files behind their writing, in order, and remembers the first that differs."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[tree.Entry, memoryview | None] | None] = queue.Queue(DEPTH)
        self._damage: Damage | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        hasher: Hasher = sha256()
        while (item := self._queue.get()) is not None:
            entry, view = item
            if view is not None:
                hasher.update(view)
                continue
            self._damage = self._damage or _difference(entry, hasher)
            hasher = sha256()

    def add(self, entry: tree.Entry, view: memoryview | None) -> None:
        """The next bytes of a file, or None after its last."""
        self.refuse()
        self._queue.put((entry, view))

    def refuse(self) -> None:
        """Raise the first damage found so far."""
        if self._damage is not None:
            raise self._damage

    def close(self) -> None:
        """Wait until everything is hashed."""
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
    handle = _open(path)
    try:
        # A short write is a full disk, which the next write would say.
        written = os.write(handle, data)
        while written < len(data):
            written += os.write(handle, data[written:])
        os.fchmod(handle, entry.mode())
    finally:
        os.close(handle)


def _write_large(stream: ReadAhead, entry: tree.Entry, path: Path, lane: _HashLane) -> None:
    count = 0
    with create(path) as handle:
        for view in stream.views(entry.size):
            lane.add(entry, view)
            handle.write(view)
            count += len(view)
        os.fchmod(handle.fileno(), entry.mode())
    _check_length(entry, count)
    lane.add(entry, None)


def create(path: Path) -> BinaryIO:
    """A new file, never through a link; only its owner can read it until it is complete."""
    return cast(BinaryIO, os.fdopen(_open(path), "wb"))


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


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
