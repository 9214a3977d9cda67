"""Files that are read whole: regular ones of a bounded size, and nothing else.

A pipe in the place of a list makes its reader wait for ever, and a link to /dev/zero has no end.
"""

import os
import stat
from collections.abc import Collection
from pathlib import Path

from manifests.errors import Damage

#: Bytes. Lists, scripts, receipts and signatures are shorter by far.
SMALL = 4 << 20


def read(path: Path, limit: int = SMALL, owners: Collection[int] = ()) -> bytes:
    """The bytes of a regular file; links are followed.

    `owners`: accounts of which one has to own it; empty: any. Raises Damage for anything else and
    for more than `limit` bytes, OSError where it can't be read.
    """
    # Without O_NONBLOCK the open itself waits for somebody to write into a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise Damage(path.name, "a regular file", "another kind of file")
    if owners and status.st_uid not in owners:
        os.close(handle)
        raise Damage(path.name, f"a file of uid {min(owners)}", f"one of uid {status.st_uid}")
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Damage(path.name, f"{limit} bytes at the most", f"{status.st_size} bytes")
    return data
