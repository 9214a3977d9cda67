"""Write a bundle's folder: the archive, install.sh and SHA256SUMS.

The manifest names every member's digest before its bytes are written, so each byte is read once,
compared in the same pass, and written once. The folder gets its name when all of it is on the disk:
every file was synced (fsync) before. What an interrupted run has written is not written again.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import resources
from pathlib import Path

from bundler.pieces import Pieces
from manifests import archive, bundle, sums, synced
from manifests.digests import Readable, chunks, sha256
from manifests.errors import FilesystemError, IntegrityError, UsageError, from_oserror
from manifests.medium import INSTALLER
from manifests.newfolder import new_folder
from manifests.parity.names import RESTORER

#: Gives a member's bytes from an offset on; called when its turn comes.
Opener = Callable[[int], "Iterator[memoryview]"]
#: What a bundle's folder may hold; see `write`, and volumes and signatures beside it.
_OURS = re.compile(
    rf"{re.escape(INSTALLER)}|{sums.FILE_NAME}(\.sig|\.copy)?|model\.sig|.+\.tar(\.\d+)?"
    rf"|{re.escape(RESTORER)}|.+\.head|.+\.parity(\.\d+)?"
)


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


def _nothing_more(_folder: Path) -> None:
    """A bundle without parity."""


def write(
    folder: Path,
    manifest: bundle.Manifest,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
    volume_size: int = 0,
    finish: Callable[[Path], object] = _nothing_more,
) -> str:
    """Write the bundle to `folder`, replacing what is there; gives the manifest's sha256.

    `volume_size` is the most bytes of a file, 0 for one archive in one piece; `finish` gets the
    complete folder before it gets its name. What an interrupted run has left of the same files is
    read again, compared with the manifest, and kept; only the rest is taken from `contents`.

    Raises IntegrityError where a member's bytes are not what the manifest says, and nothing is left
    behind then; FilesystemError where the disk is full: a re-run continues.
    """
    data = manifest.dump()
    digest = bundle.digest_of(data)
    with new_folder(folder, resumable=True) as work:
        while True:
            count = _Count(progress)
            with closing(Pieces(work, manifest, digest, len(data), volume_size)) as pieces:
                try:
                    _write_archive(pieces, manifest, data, contents, count)
                except _Spoilt as spoilt:
                    pieces.shorten(spoilt.length)
                    count.take_back()
                    continue
                seal(work, pieces, render_installer(manifest, digest, pieces.names[0]).encode())
                break
        finish(work)
    return digest


def seal(work: Path, pieces: Pieces, script: bytes) -> None:
    """Write what lies beside a finished archive: install.sh and the list of all files."""
    digests = pieces.finish()
    synced.write(work / INSTALLER, script, 0o755)
    digests[INSTALLER] = bundle.digest_of(script)
    synced.write(work / sums.FILE_NAME, sums.render(digests), 0o644)


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


class _Count:
    """Progress that can be taken back."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self._sum = 0

    def __call__(self, count: int) -> None:
        self._sum += count
        self._progress(count)

    def take_back(self) -> None:
        """Everything is done once more."""
        self._progress(-self._sum)


class _Spoilt(Exception):
    """Bytes that an earlier run has left are not what they have to be; good up to `length`."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


def _write_archive(
    pieces: Pieces,
    manifest: bundle.Manifest,
    data: bytes,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
) -> None:
    _put_known(pieces, archive.header(archive.MANIFEST_NAME, len(data), manifest.created))
    _put_known(pieces, data + archive.padding(len(data)))
    for member in manifest.members:
        start = pieces.length
        _put_known(pieces, archive.header(member.path, member.size, manifest.created))
        _put_member(pieces, member, contents[member.path], progress, start)
        _put_known(pieces, archive.padding(member.size))
    _put_known(pieces, archive.trailer(pieces.length))


def _put_known(pieces: Pieces, data: bytes) -> None:
    """Bytes that follow from the manifest: those that are there are compared."""
    start = pieces.length
    found = b"".join(bytes(view) for view in pieces.kept(len(data)))
    if not data.startswith(found):
        raise _Spoilt(start)
    pieces.put(data[len(found) :])


def _put_member(
    pieces: Pieces,
    member: bundle.Member,
    opener: Opener,
    progress: Callable[[int], None],
    start: int,
) -> None:
    hasher, count = sha256(), 0
    for view in pieces.kept(member.size):
        hasher.update(view)
        count += len(view)
        progress(len(view))
    found = count
    if count < member.size or not (found or pieces.left):
        for piece in opener(count):
            hasher.update(piece)
            count += len(piece)
            if count <= member.size:
                pieces.put(piece)
                progress(len(piece))
    if count == member.size and hasher.hexdigest() == member.sha256:
        return
    if found:  # it may be that, and the source is asked for all of it before it is blamed
        raise _Spoilt(start)
    raise IntegrityError(
        f"{member.path}: changed while the bundle was made",
        why=f"expected {member.size} bytes with sha256 {member.sha256}, "
        f"found {count} with {hasher.hexdigest()}",
        mend="run the same command again",
    )


def file_opener(path: Path) -> Opener:
    """The bytes of a file."""

    def read(start: int) -> Iterator[memoryview]:
        with path.open("rb", buffering=0) as handle:
            handle.seek(start)
            source: Readable = handle
            yield from chunks(source)

    return read


def bytes_opener(data: bytes) -> Opener:
    """Bytes in memory."""
    return lambda start: iter((memoryview(data)[start:],))
