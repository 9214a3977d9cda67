"""What a tree of files should be, and how a real one differs from it."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import IntegrityError
from manifests.names import check_link, check_path

FILE, LINK, FOLDER = "file", "link", "folder"


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

    Raises IntegrityError for unsafe names or links, duplicates, names that differ only by case,
    unknown kinds, negative sizes, and anything placed below a file or a link.
    """
    seen: dict[str, Entry] = {}
    for entry in entries:
        check_path(entry.path)
        if entry.kind not in (FILE, LINK, FOLDER):
            raise IntegrityError(f"{where}: {entry.path}: unknown kind {entry.kind!r}")
        if entry.size < 0:
            raise IntegrityError(f"{where}: {entry.path}: negative size")
        if entry.kind == LINK:
            check_link(entry.path, entry.target)
        folded = entry.path.casefold()
        if folded in seen:
            twin = seen[folded].path
            problem = "listed twice" if twin == entry.path else f"differs from {twin} only by case"
            raise IntegrityError(f"{where}: {entry.path}: {problem}")
        seen[folded] = entry
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        while parent:
            above = seen.get(parent.casefold())
            if above is not None and above.kind != FOLDER:
                raise IntegrityError(
                    f"{where}: {entry.path} lies below {above.path}, a {above.kind}"
                )
            parent = parent.rpartition("/")[0]


def walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a root as (relative path, entry), sorted, links not followed.

    Raises OSError where a folder can't be read.
    """
    stack = [""]
    while stack:
        base = stack.pop()
        with os.scandir(root / base) as found:
            entries = sorted(found, key=lambda entry: entry.name)
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
