"""An archive's bytes in one file, or in volumes; new ones, or the rest of what was begun.

A part that an earlier run has written needs no journal. The archive is a function of the manifest,
whose bytes come first in it, and every member has a digest there: so the part is compared, byte
for byte or by digest, with what has to be there, from its start to where it ends. That finds a
part of another bundle or of another volume size as well as a block that a power cut took, and
there is no second record that could be half written or say something else.
"""

import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from manifests import archive, bundle, volumes
from manifests.digests import BackgroundHasher, chunks, sha256
from manifests.errors import UsageError


class Pieces:
    """Takes an archive's bytes in order and lays them into files.

    As long as `kept` gives bytes, they are there already, and only the first `put` after that
    writes. Close it.
    """

    def __init__(
        self,
        folder: Path,
        manifest: bundle.Manifest,
        digest: str,
        manifest_size: int,
        volume_size: int,
    ) -> None:
        """Looks for what an earlier run has left in `folder`, and removes what can't be that.

        Raises UsageError where volumes of `volume_size` bytes (0: one file) can't be made, OSError.
        """
        self._folder = folder
        self._created = manifest.created
        archive_name = f"{manifest.folder_name}.tar"
        self._total = self._slice = manifest.archive_length(manifest_size)
        self._labels: list[volumes.Label] = []
        self.names = [archive_name]
        if volume_size and self._total > volume_size:
            _check_first(manifest, manifest_size, volume_size)
            count = volumes.count_for(self._total, volume_size)
            self._slice = volume_size - archive.BLOCK
            self._labels = [volumes.Label(archive_name, n, count, digest) for n in range(count)]
            self.names = [label.filename for label in self._labels]
        self.length = 0  # bytes of the archive so far
        self._room = 0  # of them, bytes that the open file still takes
        self._open: FileIO | None = None
        self._whole = BackgroundHasher(sha256())
        self._digests: dict[str, str] = {}
        self.left = self._found()  # bytes of it that an earlier run has written, after these

    def kept(self, size: int) -> Iterator[memoryview]:
        """The archive's next bytes as an earlier run has written them, at most `size`.

        Ends where they end; only then can more be `put`. Each view is valid until the next.
        """
        while size and self.left:
            out = self._file()
            for view in chunks(out, min(size, self.left, self._room)):
                self.left -= len(view)
                size -= len(view)
                self._count(view)
                yield view

    def put(self, piece: bytes | memoryview) -> None:
        """Write the archive's next bytes.

        Raises OSError.
        """
        view = memoryview(piece)
        while view:
            assert not self.left
            out = self._file()
            written = out.write(view[: self._room])
            self._count(view[:written])
            view = view[written:]

    def finish(self) -> dict[str, str]:
        """File name → sha256 of what was written; all of it is on the disk then (fsync)."""
        if self._open is not None:
            self._end()
        return self._digests

    def close(self) -> None:
        """Give up whatever is open."""
        self._whole.hexdigest()
        if self._open is not None:
            self._open.close()

    def shorten(self, length: int) -> None:
        """Close, and leave the archive's first `length` bytes at most for others to continue."""
        self.close()
        for number, name in enumerate(self.names):
            path = self._folder / name
            size = min(length - number * self._slice, self._slice)
            if size <= 0:
                path.unlink(missing_ok=True)
            elif path.exists():
                os.truncate(path, self._head() + size)

    def _found(self) -> int:
        """Bytes of the archive's start that are there; everything else in the folder goes."""
        length, ours = 0, set()
        for number, name in enumerate(self.names):
            size = self._there(number)
            length += size
            if size:
                ours.add(name)
            if size < self._share(number):
                break
        for path in list(self._folder.iterdir()):
            if path.name not in ours:
                path.unlink()
        return length

    def _there(self, number: int) -> int:
        """Bytes of the archive in a file; 0 where it can't be one of these."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would never end
        try:
            handle = os.open(self._folder / self.names[number], flags)
        except OSError:
            return 0
        with FileIO(handle) as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or file.read(self._head()) != self._label(number):
                return 0
        size = found.st_size - self._head()
        return size if size <= self._share(number) else 0

    def _head(self) -> int:
        return archive.BLOCK if self._labels else 0

    def _label(self, number: int) -> bytes:
        return self._labels[number].block(self._created) if self._labels else b""

    def _share(self, number: int) -> int:
        """Bytes of the archive that belong into a file."""
        return min(self._slice, self._total - number * self._slice)

    def _file(self) -> FileIO:
        """The file that the next byte belongs into: the one being read again, or a new one."""
        if self._open is None:
            number = len(self._digests)
            new = 0 if self.left else os.O_CREAT | os.O_EXCL
            path = self._folder / self.names[number]
            self._open = FileIO(os.open(path, os.O_RDWR | os.O_NOFOLLOW | new, 0o600), "r+b")
            label = self._label(number)
            if self.left:
                self._open.seek(len(label))
            elif label:
                self._open.write(label)
            self._whole.update(label)
            self._room = self._share(number)
        return self._open

    def _count(self, view: memoryview) -> None:
        self._whole.update(view)
        self.length += len(view)
        self._room -= len(view)
        if not self._room:
            self._end()

    def _end(self) -> None:
        assert self._open is not None
        with self._open as out:
            os.fsync(out.fileno())
            os.fchmod(out.fileno(), 0o644)
        self._open = None
        self._digests[self.names[len(self._digests)]] = self._whole.hexdigest()
        self._whole = BackgroundHasher(sha256())


def _check_first(manifest: bundle.Manifest, manifest_size: int, volume_size: int) -> None:
    """Refuse volumes of which the first can't hold what install.sh starts from."""
    (runtime,) = manifest.of_role(bundle.RUNTIME)
    needed = archive.BLOCK + archive.member_length(archive.MANIFEST_NAME, manifest_size)
    needed += archive.member_length(runtime.path, runtime.size)
    if volume_size < needed:
        raise UsageError(
            f"volumes of {volume_size} bytes are too small: the first has to hold {needed} bytes",
            why="install.sh takes the manifest and the runtime from it",
            mend=f"choose --volume-size {-(-needed // 10**6)}M or more",
        )
