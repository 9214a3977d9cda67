"""Write a packed tree to the disk, as its listing says and in no other way.

The archive's headers are compared with what the listing makes of them, byte for byte, so nothing
that is found decides a name, a mode or a link. Small files are written and hashed by a pool of
threads while the next ones are decompressed; large ones as they stream. Memory is bounded by
PENDING small files of at most SMALL bytes, about 70 MB, whatever the size of the tree.
"""

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, cast

from manifests import archive, tree
from manifests.digests import BackgroundHasher, Readable, chunks, sha256, workers
from manifests.errors import Damage
from manifests.reader import COPY_AGAIN

SMALL = 256 << 10
PENDING = 256


def extract(stream: Readable, entries: Sequence[tree.Entry], target: Path) -> None:
    """Write the entries below `target`, an empty folder of ours.

    Raises Damage naming the first entry that differs, OSError where the disk fails.
    """
    with ThreadPoolExecutor(workers()) as pool:
        pending: deque[Future[None]] = deque()
        try:
            length = 0
            for entry in entries:
                wanted = archive.entry_header(entry)
                _expect(stream, wanted, entry.path)
                length += len(wanted) + entry.size
                _write(stream, entry, target / entry.path, pool, pending)
                zeros = archive.padding(entry.size)
                _expect(stream, zeros, entry.path)
                length += len(zeros)
            _expect(stream, archive.trailer(length), "the end of the archive")
            if _read(stream, 1):
                raise Damage("the end of the archive", "nothing more", "more", mend=COPY_AGAIN)
            while pending:
                pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _write(
    stream: Readable,
    entry: tree.Entry,
    path: Path,
    pool: ThreadPoolExecutor,
    pending: deque[Future[None]],
) -> None:
    if entry.kind == tree.FOLDER:
        path.mkdir()
        path.chmod(entry.mode())
    elif entry.kind == tree.LINK:
        path.symlink_to(entry.target)
    elif entry.size > SMALL:
        _write_large(stream, entry, path)
    else:
        if len(pending) >= PENDING:
            pending.popleft().result()
        pending.append(pool.submit(_write_small, _exactly(stream, entry), entry, path))


def _write_small(data: bytes, entry: tree.Entry, path: Path) -> None:
    hasher = sha256()
    hasher.update(data)
    _compare(entry, hasher.hexdigest())
    with create(path) as handle:
        handle.write(data)
        os.fchmod(handle.fileno(), entry.mode())


def _write_large(stream: Readable, entry: tree.Entry, path: Path) -> None:
    hasher = BackgroundHasher(sha256())
    count = 0
    with create(path) as handle:
        for view in chunks(stream, entry.size):
            hasher.update(view)
            handle.write(view)
            count += len(view)
        os.fchmod(handle.fileno(), entry.mode())
    found = hasher.hexdigest()
    if count != entry.size:
        raise _cut_off(entry.path, entry.size, count)
    _compare(entry, found)


def create(path: Path) -> BinaryIO:
    """A new file, never through a link; only its owner can read it until it is complete."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return cast(BinaryIO, os.fdopen(os.open(path, flags, 0o600), "wb"))


def _compare(entry: tree.Entry, found: str) -> None:
    if found != entry.sha256:
        raise Damage(entry.path, entry.sha256, found, mend=COPY_AGAIN)


def _expect(stream: Readable, wanted: bytes, path: str) -> None:
    if wanted and _read(stream, len(wanted)) != wanted:
        raise Damage(path, "the header of a listed entry", "another one", mend=COPY_AGAIN)


def _exactly(stream: Readable, entry: tree.Entry) -> bytes:
    data = _read(stream, entry.size)
    if len(data) != entry.size:
        raise _cut_off(entry.path, entry.size, len(data))
    return data


def _read(stream: Readable, size: int) -> bytes:
    return b"".join(bytes(view) for view in chunks(stream, size))


def _cut_off(path: str, expected: int, found: int) -> Damage:
    return Damage(path, f"{expected} bytes", f"the end after {found}", mend=COPY_AGAIN)
