"""Write a bundle's folder: the archive, install.sh and SHA256SUMS.

The manifest names every member's digest before its bytes are written, so each byte is read once,
compared in the same pass, and written once. The folder gets its name when all of it is on the disk.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from manifests import archive, bundle, sums
from manifests.digests import BackgroundHasher, Readable, chunks, sha256
from manifests.errors import FilesystemError, IntegrityError, UsageError, from_oserror

#: Gives a member's bytes; called once, when its turn comes.
Opener = Callable[[], "Iterator[memoryview]"]
INSTALLER = "install.sh"


def check_output(output: Path, size: int = 0) -> None:
    """Refuse an output folder that can't be written or has not `size` bytes free.

    Raises FilesystemError.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
        free = shutil.disk_usage(output).free
    except OSError as error:
        raise from_oserror(error, "preparing the output folder", output) from None
    if free < size:
        raise FilesystemError(
            f"{output}: {free:,} bytes are free, the bundle takes {size:,}",
            mend="free some space or choose another folder with --output",
        )


def check_new(folder: Path, force: bool) -> None:
    """Refuse to write over a bundle that exists.

    Raises UsageError.
    """
    if folder.exists() and not force:
        raise UsageError(
            f"{folder}: exists already",
            mend="choose another --output or --name, or replace it with --force",
        )


def write(
    folder: Path,
    manifest: bundle.Manifest,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
) -> str:
    """Write the bundle to `folder`, replacing what is there; gives the manifest's sha256.

    Raises IntegrityError where a member's bytes are not what the manifest says, FilesystemError
    where the disk is full. Nothing is left behind then.
    """
    name = f"{manifest.name}.tar"
    data = manifest.dump()
    digest = bundle.digest_of(data)
    with _new_folder(folder) as work:
        digests = {name: _write_archive(work / name, manifest, data, contents, progress)}
        script = render_installer(manifest, digest).encode()
        _write_file(work / INSTALLER, script, 0o755)
        digests[INSTALLER] = bundle.digest_of(script)
        _write_file(work / sums.FILE_NAME, sums.render(digests), 0o644)
    return digest


def render_installer(manifest: bundle.Manifest, digest: str) -> str:
    """install.sh with the names and digests of this bundle."""
    template = (resources.files("bundlectl") / INSTALLER).read_text("utf-8")
    (runtime,) = manifest.of_role(bundle.RUNTIME)
    values = {
        "ARCHIVE": f"{manifest.name}.tar",
        "MANIFEST_SHA256": digest,
        "RUNTIME_SHA256": runtime.sha256,
        "RUNTIME_SIZE": str(runtime.size),
        "GLIBC": manifest.needs.glibc,
    }
    for key, value in values.items():
        template = template.replace(f"@{key}@", value)
    return template


def _write_archive(
    path: Path,
    manifest: bundle.Manifest,
    data: bytes,
    contents: Mapping[str, Opener],
    progress: Callable[[int], None],
) -> str:
    whole = BackgroundHasher(sha256())
    length = 0
    with path.open("xb") as out:

        def put(piece: bytes | memoryview) -> None:
            nonlocal length
            out.write(piece)
            whole.update(piece)
            length += len(piece)

        put(archive.header(archive.MANIFEST_NAME, len(data), manifest.created))
        put(data)
        put(archive.padding(len(data)))
        for member in manifest.members:
            put(archive.header(member.path, member.size, manifest.created))
            hasher, count = sha256(), 0
            for piece in contents[member.path]():
                hasher.update(piece)
                put(piece)
                count += len(piece)
                progress(len(piece))
            if count != member.size or hasher.hexdigest() != member.sha256:
                raise IntegrityError(
                    f"{member.path}: changed while the bundle was made",
                    why=f"expected {member.size} bytes with sha256 {member.sha256}, "
                    f"found {count} with {hasher.hexdigest()}",
                    mend="run the same command again",
                )
            put(archive.padding(member.size))
        put(archive.trailer(length))
        out.flush()
        os.fsync(out.fileno())
        os.fchmod(out.fileno(), 0o644)
    return whole.hexdigest()


def _write_file(path: Path, data: bytes, mode: int) -> None:
    with path.open("xb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        os.fchmod(out.fileno(), mode)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name when the block ends well, and vanishes when it does not."""
    work = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o755)
        work.chmod(0o755)
        yield work
        if folder.exists():
            shutil.rmtree(folder)
        work.rename(folder)
        handle = os.open(folder.parent, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    except OSError as error:
        raise from_oserror(error, "writing the bundle") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
