"""Put on the disk what was written."""

import ctypes
import os
from pathlib import Path

from manifests import synced
from manifests.errors import from_oserror


def sync(folder: Path) -> None:
    """Flush everything written below a folder's file system (syncfs(2)).

    One call for a whole tree, its names included. Raises OSError.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Replace a small file: all of it or nothing, synced, its name included.

    Raises FilesystemError.
    """
    try:
        synced.replace(path, data, mode)
        sync(path.parent)
    except OSError as error:
        raise from_oserror(error, "writing the installation's papers", path) from error
