"""A folder that gets its name when all of it is on the disk.

Until then it is `.NAME.partial` beside its place, locked, so that nothing else is ever left on the
media. What an error that passes has left there (a kill, Ctrl-C, a full disk) can be continued.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from manifests.errors import FilesystemError, SourceError, UsageError, from_oserror

#: Errors of a disk that the same disk repeats: nothing is gained by keeping what was written.
_LASTING = frozenset({errno.EFBIG, errno.EROFS, errno.ENAMETOOLONG})


def partial_of(folder: Path) -> Path:
    """Where a folder grows."""
    return folder.with_name(f".{folder.name}.partial")


def kept(folder: Path) -> int:
    """Bytes that an interrupted run has left for `folder`."""
    try:
        with os.scandir(partial_of(folder)) as found:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in found)
    except OSError:
        return 0


@contextmanager
def new_folder(folder: Path, *, resumable: bool = False) -> Iterator[Path]:
    """A folder that gets its name when the block ends well; what was at its place is gone then.

    When the block ends ill, it vanishes. If it is `resumable`, it stays after errors that pass
    (FilesystemError, SourceError, Ctrl-C), and the next run finds in it what this one has written,
    or what a kill has left; the caller looks through it and trusts nothing.

    The folder is synced (fsync) before it is renamed, and the folder above it afterwards: the files
    have to be synced by the caller. Raises UsageError where another run writes it, FilesystemError.
    """
    missing = [path for path in folder.parents if not path.exists()]
    try:
        with _ours_alone(partial_of(folder), resumable) as work:
            _settle(folder)
            yield work
            sync_folder(work)
            _replace(folder, work)
    except OSError as error:
        raise _told(error, folder, resumable) from error
    finally:
        for path in missing:
            with suppress(OSError):  # not empty: it holds the bundle
                path.rmdir()


def _told(error: OSError, folder: Path, resumable: bool) -> Exception:
    told = from_oserror(error, "writing the bundle", error.filename or folder)
    if resumable and _passes(error) and (size := kept(folder)):
        told.why = f"{partial_of(folder)} keeps {size:,} bytes: a re-run continues there"
    return told


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _replace(folder: Path, work: Path) -> None:
    """Give the new folder its name: two renames, so that half a folder never has it."""
    if folder.exists():
        folder.rename(_old(folder))
    work.rename(folder)
    sync_folder(folder.parent)
    _settle(folder)


def _settle(folder: Path) -> None:
    """End what `_replace` has begun: the old folder goes, or gets its name back."""
    old = _old(folder)
    if old.exists() and folder.exists():
        shutil.rmtree(old)
    elif old.exists():
        old.rename(folder)


@contextmanager
def _ours_alone(work: Path, resumable: bool) -> Iterator[Path]:
    """A folder, made, locked against other runs, and perhaps gone (if not renamed) at the end.

    The lock is on the folder itself.
    """
    handle = _made_and_locked(work)
    keep = False
    try:
        if not resumable:
            for entry in list(os.scandir(work)):  # what a killed run has left
                Path(entry).unlink()
        os.fchmod(handle, 0o755)
        yield work
    except BaseException as error:
        keep = resumable and _passes(error)
        raise
    finally:
        if _is_at(handle, work) and not (keep and any(work.iterdir())):
            shutil.rmtree(work, ignore_errors=True)
        os.close(handle)


def _passes(error: BaseException) -> bool:
    """Whether the same command may well succeed later."""
    cause = error.__cause__ if isinstance(error, FilesystemError) else error
    if isinstance(cause, OSError):
        return cause.errno not in _LASTING
    return isinstance(error, FilesystemError | SourceError) or not isinstance(error, Exception)


def _made_and_locked(work: Path) -> int:
    while True:
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UsageError(
                f"{work}: another `bundle` is writing there",
                mend="wait until it has ended, or choose another folder (--output, --name, --to)",
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


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk (fsync).

    Raises OSError.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
