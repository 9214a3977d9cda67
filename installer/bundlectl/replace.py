"""Put one listed thing in the place of whatever lies there: whole and proven, or not at all.

Everything is made under one name in the same folder and renamed, so that a program that has the old
file open keeps it, and a kill leaves either the old or the new one. The name is known, so that the
next repair removes what a kill has left.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from bundlectl.extract import new_file, write_all
from manifests import prefix, tree
from manifests.digests import Hasher, sha256
from manifests.errors import Damage
from manifests.reader import COPY_AGAIN

#: The name of what is not complete yet. Short: the file's own may be as long as names can be.
DRAFT = ".vllm-bundle-repair"


class InTheWayError(Exception):
    """A folder that is not empty lies where something else belongs."""


def put_file(
    path: Path, entry: tree.Entry, views: Iterable[memoryview | bytes], installed_at: str = ""
) -> None:
    """Replace what lies at `path` by the entry's bytes, which `views` brings as they were packed.

    A volatile file is written as conda-unpack makes it below `installed_at`. Raises Damage where
    the bytes are not the entry's, InTheWayError, OSError.
    """
    draft = path.with_name(DRAFT)
    draft.unlink(missing_ok=True)
    try:
        with new_file(draft) as handle:
            checked = _checked(entry, views)
            if entry.rewrite is None:
                for view in checked:
                    write_all(handle, view)
            else:  # small enough for the audit to take them whole too
                packed = b"".join(bytes(view) for view in checked)
                write_all(handle, prefix.apply(packed, entry.rewrite, installed_at))
            os.fchmod(handle.fileno(), entry.mode())
            os.fsync(handle.fileno())
        _make_way(path)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _checked(
    entry: tree.Entry, views: Iterable[memoryview | bytes]
) -> Iterable[memoryview | bytes]:
    """Hand on the bytes; after the last one they have proven to be the entry's."""
    hasher: Hasher = sha256()
    size = 0
    for view in views:
        hasher.update(view)
        size += len(view)
        yield view
    if size != entry.size:
        raise Damage(entry.path, f"{entry.size} bytes", f"the end after {size}", mend=COPY_AGAIN)
    if hasher.hexdigest() != entry.sha256:
        raise Damage(entry.path, entry.sha256, hasher.hexdigest(), mend=COPY_AGAIN)


def put_link(path: Path, entry: tree.Entry) -> None:
    """Replace what lies at `path` by a link.

    Raises InTheWayError, OSError.
    """
    draft = path.with_name(DRAFT)
    draft.unlink(missing_ok=True)
    draft.symlink_to(entry.target)
    try:
        _make_way(path)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def put_folder(path: Path, mode: int) -> bool:
    """Have a folder at `path`, never a link to one; whether it had to be made.

    Raises OSError.
    """
    made = not is_folder(path)
    if made:
        path.unlink(missing_ok=True)
        path.mkdir()
    path.chmod(mode)
    return made


def is_folder(path: Path) -> bool:
    """Whether a folder itself lies there."""
    return _kind(path) == stat.S_IFDIR


def is_file(path: Path) -> bool:
    """Whether a regular file itself lies there."""
    return _kind(path) == stat.S_IFREG


def _kind(path: Path) -> int:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return 0


def _make_way(path: Path) -> None:
    if not is_folder(path):
        return  # anything else gives way to a rename
    try:
        path.rmdir()
    except OSError as error:
        raise InTheWayError(str(path)) from error
