"""Put on the disk what was written."""

import ctypes
import os
from pathlib import Path


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
