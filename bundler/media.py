"""Write a bundle's folder: the archive, install.sh and SHA256SUMS.

The manifest names every member's digest before its bytes are written, so each byte is read once,
compared in the same pass, and written once. The folder gets its name when all of it is on the disk.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from manifests import archive, bundle, sums, volumes
from manifests.digests import BackgroundHasher, Readable, chunks, sha256
from manifests.errors import FilesystemError, IntegrityError, UsageError, from_oserror

#: Gives a member's bytes; called once, when its turn comes.
Opener = Callable[[], "Iterator[memoryview]"]
INSTALLER = "install.sh"
#: What a bundle's folder may hold; see `write`, and volumes and signatures beside it.
_OURS = re.compile(rf"{re.escape(INSTALLER)}|{sums.FILE_NAME}(\.sig)?|model\.sig|.+\.tar(\.\d+)?")


def check_output(output: Path, size: int = 0) -> None:
    """Refuse an output folder that can't be written or has not `size` bytes free.

    Where it does not exist, the folder above it that does is asked: nothing is made here.
    Raises FilesystemError.
    """
    place = output
    try:
        place = output.absolute()
        while not os.path.lexists(place):
            place = place.parent
        with tempfile.TemporaryFile(dir=place):
            pass
        free = shutil.disk_usage(place).free
    except OSError as error:
        raise from_oserror(error, "preparing the output folder", place) from None
    if free < size:
        raise FilesystemError(
            f"{output}: {free:,} bytes are free, the bundle takes {size:,}",
            mend="free some space or choose another folder with --output",
        )


def check_new(folder: Path, force: bool) -> None:
    """Refuse to write over what exists; with `force`, over anything but a bundle.

    Raises UsageError.
    """
    if not os.path.lexists(folder):
        return
    if not force:
        raise UsageError(
            f"{folder}: exists already",
            mend="choose another --output or --name, or replace it with --force",
        )
    if not _is_bundle(folder):
        raise UsageError(
            f"{folder}: is not a bundle, and --force replaces nothing else",
            mend="choose another --output or --name, or remove it yourself",
        )


def _is_bundle(folder: Path) -> bool:
    """Whether removing a folder would remove a bundle and nothing else."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    names = [path.name for path in folder.iterdir()]
    return not names or (sums.FILE_NAME in names and all(map(_OURS.fullmatch, names)))


def write(
    folder: Path,
    manifest: bundle.Manifest,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
    volume_size: int = 0,
) -> str:
    """Write the bundle to `folder`, replacing what is there; gives the manifest's sha256.

    `volume_size` is the most bytes of a file, 0 for one archive in one piece. Raises IntegrityError
    where a member's bytes are not what the manifest says, FilesystemError where the disk is full;
    nothing is left behind then.
    """
    data = manifest.dump()
    digest = bundle.digest_of(data)
    with (
        new_folder(folder) as work,
        closing(Pieces(work, manifest, digest, len(data), volume_size)) as pieces,
    ):
        _write_archive(pieces, manifest, data, contents, progress)
        seal(work, pieces, render_installer(manifest, digest, pieces.names[0]).encode())
    return digest


def seal(work: Path, pieces: "Pieces", script: bytes) -> None:
    """Write what lies beside a finished archive: install.sh and the list of all files."""
    digests = pieces.finish()
    _write_file(work / INSTALLER, script, 0o755)
    digests[INSTALLER] = bundle.digest_of(script)
    _write_file(work / sums.FILE_NAME, sums.render(digests), 0o644)


class Pieces:
    """Takes an archive's bytes and lays them into one file, or into volumes."""

    def __init__(
        self,
        folder: Path,
        manifest: bundle.Manifest,
        digest: str,
        manifest_size: int,
        volume_size: int,
    ) -> None:
        self._folder = folder
        self._created = manifest.created
        self._room = 0  # bytes that the open file still takes
        self._slice = 0
        self._open: BinaryIO | None = None
        self._whole = BackgroundHasher(sha256())
        self._digests: dict[str, str] = {}
        archive_name = f"{manifest.name}.tar"
        self.length = 0  # bytes of the archive so far
        self._labels: list[volumes.Label] = []
        self.names = [archive_name]
        length = manifest.archive_length(manifest_size)
        if volume_size and length > volume_size:
            _check_first(manifest, manifest_size, volume_size)
            count = volumes.count_for(length, volume_size)
            self._slice = volume_size - archive.BLOCK
            self._labels = [volumes.Label(archive_name, n, count, digest) for n in range(count)]
            self.names = [label.filename for label in self._labels]

    def put(self, piece: bytes | memoryview) -> None:
        """Take the next bytes."""
        view = memoryview(piece)
        self.length += len(view)
        while view:
            if self._open is None:
                self._start()
            assert self._open is not None
            part = view[: self._room] if self._slice else view
            self._open.write(part)
            self._whole.update(part)
            view = view[len(part) :]
            if self._slice:
                self._room -= len(part)
                if not self._room:
                    self._end()

    def finish(self) -> dict[str, str]:
        """File name → sha256 of what was written; all of it is on the disk then."""
        if self._open is not None:
            self._end()
        return self._digests

    def close(self) -> None:
        """Give up whatever is open."""
        self._whole.hexdigest()
        if self._open is not None:
            self._open.close()

    def _start(self) -> None:
        number = len(self._digests)
        self._open = (self._folder / self.names[number]).open("xb")
        if self._labels:
            label = self._labels[number].block(self._created)
            self._open.write(label)
            self._whole.update(label)
            self._room = self._slice

    def _end(self) -> None:
        assert self._open is not None
        with self._open as out:
            out.flush()
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


def render_installer(manifest: bundle.Manifest, digest: str, first: str) -> str:
    """install.sh with the names and digests of this bundle; `first` holds the runtime."""
    template = (resources.files("bundlectl") / INSTALLER).read_text("utf-8")
    (runtime,) = manifest.of_role(bundle.RUNTIME)
    values = {
        "ARCHIVE": first,
        "MANIFEST_SHA256": digest,
        "RUNTIME_SHA256": runtime.sha256,
        "RUNTIME_SIZE": str(runtime.size),
        "GLIBC": manifest.needs.glibc,
    }
    for key, value in values.items():
        template = template.replace(f"@{key}@", value)
    return template


def _write_archive(
    pieces: Pieces,
    manifest: bundle.Manifest,
    data: bytes,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
) -> None:
    pieces.put(archive.header(archive.MANIFEST_NAME, len(data), manifest.created))
    pieces.put(data)
    pieces.put(archive.padding(len(data)))
    for member in manifest.members:
        pieces.put(archive.header(member.path, member.size, manifest.created))
        hasher, count = sha256(), 0
        for piece in contents[member.path]():
            hasher.update(piece)
            pieces.put(piece)
            count += len(piece)
            progress(len(piece))
        if count != member.size or hasher.hexdigest() != member.sha256:
            raise IntegrityError(
                f"{member.path}: changed while the bundle was made",
                why=f"expected {member.size} bytes with sha256 {member.sha256}, "
                f"found {count} with {hasher.hexdigest()}",
                mend="run the same command again",
            )
        pieces.put(archive.padding(member.size))
    pieces.put(archive.trailer(pieces.length))


def _write_file(path: Path, data: bytes, mode: int) -> None:
    with path.open("xb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        os.fchmod(out.fileno(), mode)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name when the block ends well, and vanishes when it does not."""
    missing = [path for path in folder.parents if not path.exists()]
    try:
        with _ours_alone(folder.with_name(f".{folder.name}.partial")) as work:
            yield work
            if folder.exists():
                shutil.rmtree(folder)
            work.rename(folder)
            _sync_folder(folder.parent)
    except OSError as error:
        raise from_oserror(error, "writing the bundle", error.filename or folder) from error
    finally:
        for path in missing:
            with suppress(OSError):  # not empty: it holds the bundle
                path.rmdir()


@contextmanager
def _ours_alone(work: Path) -> Iterator[Path]:
    """A folder, made, empty, locked against other runs, and gone (if not renamed) at the end.

    The lock is on the folder itself, so that nothing else is ever left on the media.
    """
    handle = _made_and_locked(work)
    try:
        for entry in list(os.scandir(work)):  # what a killed run has left
            Path(entry).unlink()
        os.fchmod(handle, 0o755)
        yield work
    finally:
        if _is_at(handle, work):
            shutil.rmtree(work, ignore_errors=True)
        os.close(handle)


def _made_and_locked(work: Path) -> int:
    while True:
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UsageError(
                f"{work}: another `bundle` is writing there",
                mend="wait until it has ended, or choose another --output or --name",
            ) from None
        except OSError:  # a file system without locks, some network shares among them
            return handle
        if _is_at(handle, work):
            return handle
        os.close(handle)  # who held the lock before us has renamed or removed what we opened


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open folder is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_opener(path: Path) -> Opener:
    """The bytes of a file."""

    def read() -> Iterator[memoryview]:
        with path.open("rb", buffering=0) as handle:
            source: Readable = handle
            yield from chunks(source)

    return read


def bytes_opener(data: bytes) -> Opener:
    """Bytes in memory."""
    return lambda: iter((memoryview(data),))
