"""What a tree of files should be, and how a real one differs from it."""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import IntegrityError
from manifests.names import check_link, check_path

FILE, LINK, FOLDER = "file", "link", "folder"
#: How conda-unpack replaces a prefix.
TEXT, BINARY = "text", "binary"
#: Bytes of the largest file that any file system has.
LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Rewrite:
    """The prefix that conda-unpack replaces in a file (conda's `prefix_placeholder`)."""

    placeholder: str
    mode: str  # "text" or "binary", conda's `file_mode`


@dataclass(frozen=True)
class Entry:
    """One file, link or folder below a root; folders are listed so that empty ones exist too."""

    path: str
    kind: str = FILE
    size: int = 0  # bytes; files only
    sha256: str = ""  # files only
    executable: bool = False  # mode 0755 instead of 0644; folders are 0755
    target: str = ""  # links only
    rewrite: Rewrite | None = None  # a volatile file: conda-unpack changes it after unpacking

    def mode(self) -> int:
        """Permission bits as installed."""
        return 0o755 if self.executable or self.kind == FOLDER else 0o644


def check(entries: Sequence[Entry], where: str) -> None:
    """Refuse a listing that no honest packer writes.

    Raises IntegrityError for unsafe names or links, links that lead out of the tree by way of
    others, duplicates, names that differ only by case, unknown kinds, sizes that no file has, and
    anything whose folder is not listed before it.
    """
    seen: dict[str, Entry] = {}
    links: dict[str, str] = {}
    for entry in entries:
        check_path(entry.path)
        if entry.kind not in (FILE, LINK, FOLDER):
            raise IntegrityError(f"{where}: {entry.path}: unknown kind {entry.kind!r}")
        if not 0 <= entry.size <= LARGEST:
            raise IntegrityError(f"{where}: {entry.path}: a size that no file has")
        if entry.kind != FILE and entry != Entry(entry.path, entry.kind, target=entry.target):
            raise IntegrityError(f"{where}: {entry.path}: a {entry.kind} with a file's properties")
        if entry.kind == LINK:
            links[entry.path] = check_link(entry.path, entry.target)
        elif entry.target:
            raise IntegrityError(f"{where}: {entry.path}: a {entry.kind} with a link's target")
        if entry.rewrite is not None and entry.rewrite.mode not in (TEXT, BINARY):
            raise IntegrityError(f"{where}: {entry.path}: unknown rewrite {entry.rewrite.mode!r}")
        folded = entry.path.casefold()
        if folded in seen:
            twin = seen[folded].path
            problem = "listed twice" if twin == entry.path else f"differs from {twin} only by case"
            raise IntegrityError(f"{where}: {entry.path}: {problem}")
        _check_parent(entry, seen, where)
        seen[folded] = entry
    folders = {entry.path for entry in entries if entry.kind == FOLDER}
    for path, target in links.items():
        _check_way(path, target, folders, where)


def _check_parent(entry: Entry, seen: Mapping[str, Entry], where: str) -> None:
    parent = entry.path.rpartition("/")[0]
    if not parent:
        return
    above = seen.get(parent.casefold())
    if above is None:
        raise IntegrityError(f"{where}: {entry.path}: its folder is not listed before it")
    if above.kind != FOLDER:
        raise IntegrityError(f"{where}: {entry.path} lies below {above.path}, a {above.kind}")
    if above.path != parent:
        raise IntegrityError(f"{where}: {parent}: differs from {above.path} only by case")


def _check_way(path: str, target: str, folders: Collection[str], where: str) -> None:
    """Refuse a `..` behind anything but a listed folder.

    By their texts two links can stay inside that lead out together: `..` goes up from where a link
    has led, not from where it lies. Without such steps the text is the truth.
    """
    here = path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if "/".join(here) not in folders:
                raise IntegrityError(
                    f"{where}: {path}: link to {target!r} leaves the tree: "
                    f"it goes up from {'/'.join(here)!r}, which is no folder"
                )
            here.pop()
        elif part not in ("", "."):
            here.append(part)


def _refuse(_path: str, error: OSError) -> None:
    raise error


def walk(
    root: Path, unreadable: Callable[[str, OSError], None] = _refuse
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a root as (relative path, entry), sorted, links not followed.

    `unreadable` hears of each folder that can't be read; without it OSError is raised.
    """
    stack = [""]
    while stack:
        base = stack.pop()
        try:
            with os.scandir(root / base) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            unreadable(base, error)
            continue
        for entry in entries:
            path = f"{base}/{entry.name}" if base else entry.name
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                stack.append(path)


def kind_of(entry: os.DirEntry[str]) -> str:
    """FILE, LINK, FOLDER, or the name of what should not be there (socket, device, …)."""
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_ISDIR(mode):
        return FOLDER
    return {
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
        stat.S_IFBLK: "block device",
        stat.S_IFCHR: "character device",
    }.get(stat.S_IFMT(mode), "unknown kind of file")
