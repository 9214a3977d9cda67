"""Small files that are on the disk, not on their way to it, when the call returns."""

import os
from pathlib import Path

from manifests.errors import UsageError


def write(path: Path, data: bytes, mode: int, *, new: bool = True) -> None:
    """Write a file and sync it (fsync(2)).

    `new` refuses one that is there already; without it, that one's name goes first. Nothing is ever
    written through a link, or into a file that has another name: the folder may be another
    account's than ours. Its name is the caller's to sync. Raises OSError.
    """
    if not new:
        path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, mode), "wb") as out:
        out.write(data)
        out.flush()
        os.fchmod(out.fileno(), mode)  # whatever the umask has left of it
        os.fsync(out.fileno())


def check_target(path: Path) -> None:
    """Refuse a file that can't be written in the end, before long work.

    Raises UsageError.
    """
    folder = path.absolute().parent
    if not path.name or path.is_dir():
        raise UsageError(f"{path}: is a folder", mend="name a file that is to be written")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path}: nothing can be written into {folder}",
            mend="name a file in a folder that is there and that this account may write",
        )


def replace(path: Path, data: bytes, mode: int) -> None:
    """Put a file in the place of the one that has its name: all of it or nothing.

    As `write`: its name is the caller's to sync. Raises OSError.
    """
    draft = path.with_name(f".{path.name}.new")
    write(draft, data, mode, new=False)
    draft.replace(path)
