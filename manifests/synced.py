"""Small files that are on the disk, not on their way to it, when the call returns."""

import os
from pathlib import Path


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


def replace(path: Path, data: bytes, mode: int) -> None:
    """Put a file in the place of the one that has its name: all of it or nothing.

    As `write`: its name is the caller's to sync. Raises OSError.
    """
    draft = path.with_name(f".{path.name}.new")
    write(draft, data, mode, new=False)
    draft.replace(path)
