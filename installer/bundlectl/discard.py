"""Remove what an installation consists of, and nothing else.

A folder with nothing in it but what its manifest lists gets another name first, so that no kill
leaves half of it under its own. From a folder with anything else in it just the listed entries are
taken. No link is followed, in whatever place it lies. What is mounted is emptied, and its mount
point stays: only who has mounted it can take it away.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from bundlectl.host.filesystems import mount_points
from bundlectl.replace import DRAFT, is_folder
from manifests import placement, tree

#: Every new ext4 file system has it; it is nobody's.
OF_THE_DISK = "lost+found"


def trash_of(folder: Path) -> Path:
    """The name that a folder has on its way out."""
    return folder.with_name(f".{folder.name}{placement.TRASH}")


def leftovers(folder: Path) -> list[Path]:
    """What killed runs have left on its way out of a folder."""
    if not is_folder(folder):
        return []
    return sorted(path for path in folder.iterdir() if path.name.endswith(placement.TRASH))


def set_aside(folder: Path) -> None:
    """Take a folder's name away: it is as good as gone.

    Raises OSError.
    """
    if mounts(folder):  # rename(2) takes no mount point, and would take what is below it along
        whole(folder)
    elif is_folder(folder):
        whole(trash_of(folder))
        folder.rename(trash_of(folder))


def whole(path: Path) -> None:
    """Remove a folder with all that is in it, or whatever lies in its place, but mount points.

    Raises OSError.
    """
    found = mounts(path)
    if found and is_folder(path):
        for entry in sorted(path.iterdir()):
            if path not in found or entry.name != OF_THE_DISK:
                whole(entry)
        if_empty(path)
    elif is_folder(path):
        shutil.rmtree(path)
    elif not found:
        path.unlink(missing_ok=True)


def mounts(path: Path) -> set[Path]:
    """The mount points at a path and below it; none where it is a link.

    Raises OSError.
    """
    if path.is_symlink():
        return set()
    real = path.resolve()
    return {path / one.relative_to(real) for one in mount_points() if one.is_relative_to(real)}


def strangers(folder: Path, entries: Sequence[tree.Entry]) -> list[str]:
    """Paths below a folder that no entry names, without those below another one of them.

    Raises OSError where a folder can't be read.
    """
    if not is_folder(folder):
        return []
    known = {entry.path for entry in entries}
    found: list[str] = []
    for path, _ in tree.walk(folder):
        parent, _, name = path.rpartition("/")
        if path not in known and name != DRAFT and (not parent or parent in known):
            found.append(path)
    return found


def listed(folder: Path, entries: Sequence[tree.Entry]) -> None:
    """Remove what the entries name, and each folder that is empty then, the listed one included.

    Raises OSError.
    """
    if not is_folder(folder):
        return
    linked: set[str] = set()  # listed folders in whose place something else lies
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        if parent in linked or (entry.kind == tree.FOLDER and not is_folder(folder / entry.path)):
            linked.add(entry.path)
    for entry in reversed(entries):
        path = folder / entry.path
        if entry.path.rpartition("/")[0] in linked:
            continue
        if entry.kind == tree.FOLDER:
            (path / DRAFT).unlink(missing_ok=True)
            if_empty(path)
        elif path.is_symlink() == (entry.kind == tree.LINK) and not is_folder(path):
            path.unlink(missing_ok=True)
    if_empty(folder)


def if_empty(folder: Path) -> None:
    """Remove a folder that holds nothing, unless it is a mount point.

    Raises OSError.
    """
    if is_folder(folder) and not any(os.scandir(folder)):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or folder not in mounts(folder):
                raise


def size(paths: Iterable[Path]) -> int:
    """Bytes that trees take on their disks, links not followed; a hard link counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in paths:
        if not path.is_symlink() and path.is_dir():
            below = [entry.stat(follow_symlinks=False) for _, entry in tree.walk(path)]
        else:
            below = []
        for status in (*below, *([path.lstat()] if os.path.lexists(path) else [])):
            if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
                total += status.st_blocks * 512
            elif (inode := (status.st_dev, status.st_ino)) not in seen:
                seen.add(inode)
                total += status.st_blocks * 512
    return total
