"""Small files that are on the disk, not on their way to it, when the call returns."""

import os
from pathlib import Path


def write(path: Path, data: bytes, mode: int, *, new: bool = True) -> None:
    """Write a file and sync it (fsync(2)); `new` refuses one that is there already.

    Its name is the caller's to sync. Raises OSError.
    """
    with path.open("xb" if new else "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        os.fchmod(out.fileno(), mode)
