"""Files on media that may be damaged: what can't be read is missing, and no error.

A file may lie in several folders (a second copy of a disc, as scratched as the first): every copy
is looked at.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from manifests.medium import NextMedium, no_other_medium


class Shelf:
    """The folders of a bundle, for reading any part of any file."""

    def __init__(self, folders: Sequence[Path], next_medium: NextMedium = no_other_medium) -> None:
        self._folders = list(dict.fromkeys(folders))
        self._next_medium = next_medium
        self._open: dict[str, list[int]] = {}

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where is looked."""
        return tuple(self._folders)

    def close(self) -> None:
        """Close all files; they are opened again when they are read again."""
        for handle in (handle for handles in self._open.values() for handle in handles):
            os.close(handle)
        self._open = {}

    def names(self) -> list[str]:
        """What lies in the folders, sorted."""
        found = set()
        for folder in self._folders:
            with suppress(OSError):
                found |= {entry.name for entry in os.scandir(folder)}
        return sorted(found)

    def ask_for(self, name: str) -> None:
        """Have a file's medium put in, where no copy is at hand and somebody can be asked."""
        if self._handles(name):
            return
        self.close()  # a drive in which a file is open can't be ejected
        if (folder := self._next_medium(name)) is not None and folder not in self._folders:
            self._folders.append(folder)

    def sizes(self, name: str) -> list[int]:
        """Bytes of each copy of a file, each size once."""
        return list(dict.fromkeys(os.fstat(handle).st_size for handle in self._handles(name)))

    def read(self, name: str, offset: int, size: int) -> Iterator[bytes]:
        """Each copy of some bytes of a file that can be read and is long enough."""
        if offset < 0:
            return
        for handle in self._handles(name):
            with suppress(OSError):  # a sector that can't be read is what this is for
                data = os.pread(handle, size, offset)
                while len(data) < size and (
                    more := os.pread(handle, size - len(data), offset + len(data))
                ):
                    data += more
                if len(data) == size:
                    yield data

    def whole(self, name: str, limit: int) -> Iterator[bytes]:
        """Each copy of a small file."""
        for size in self.sizes(name):
            if size <= limit:
                yield from self.read(name, 0, size)

    def _handles(self, name: str) -> list[int]:
        if name not in self._open:
            self._open[name] = [
                handle for folder in self._folders if (handle := _opened(folder / name)) is not None
            ]
        return self._open[name]


def _opened(path: Path) -> int | None:
    """A regular file, open; None where there is none that can be opened."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # nothing of the medium's
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None
