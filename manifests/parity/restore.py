"""Mend a copy of a damaged medium: copy what is right, rebuild what is not, and prove all of it.

Each byte of the medium is read once, as far as it can be, and each block that has its digest goes
into the new folder. What is missing is computed from the copy, not from the medium. SHA256SUMS is
written last, and only where all files are the ones that it names; then the folder gets its name.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from manifests.console import Console, Progress, ignore_progress, size
from manifests.errors import FilesystemError, IntegrityError, UsageError
from manifests.medium import INSTALLER, NextMedium, no_other_medium
from manifests.newfolder import new_folder
from manifests.parity import finish, front
from manifests.parity.codec import Codec
from manifests.parity.finish import FROM_SOURCE
from manifests.parity.mending import Mending
from manifests.parity.names import is_spare
from manifests.parity.scheme import ROWS, Scheme
from manifests.parity.shelf import Shelf


@dataclass(frozen=True)
class Restored:
    """A bundle that is whole again."""

    folder: Path
    size: int  # bytes of its files
    rebuilt: int  # blocks
    block: int  # bytes
    damaged: tuple[str, ...]  # files that were not whole on the medium
    notes: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """The answer as --json prints it."""
        return {
            "folder": str(self.folder),
            "bytes": self.size,
            "rebuilt_blocks": self.rebuilt,
            "block_bytes": self.block,
            "damaged": list(self.damaged),
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """The answer as a person reads it."""
        lines = [f"note: {note}" for note in self.notes]
        if self.damaged:
            amount = size(self.rebuilt * self.block)
            lines.append(f"rebuilt {amount} of {', '.join(self.damaged)}")
        lines.append(f"{self.folder}: whole, {size(self.size)}, every file as SHA256SUMS names it")
        lines.append(f"go on from there: sh {quote(str(self.folder / INSTALLER))}")
        return "\n".join(lines)


def find(shelf: Shelf) -> Scheme:
    """The parity that lies in the folders.

    Raises UsageError where there is none, IntegrityError where none of it can be read, or it
    belongs to several bundles.
    """
    names = [name for name in shelf.names() if is_spare(name)]
    if not names:
        raise UsageError(
            "this medium has no parity",
            why="a bundle has it where it was made with --parity, or by `bundle parity`",
            mend="name the folder of the parity files with --volumes-in DIR, or copy the bundle "
            "from its source again",
        )
    found = list(front.read_schemes(shelf, names).values())
    if not found:
        raise IntegrityError(
            f"{', '.join(names)}: no header of the parity can be read",
            why="each parity file has one at its start and one at its end",
            mend=FROM_SOURCE,
        )
    if len(found) > 1:
        raise IntegrityError(
            f"{', '.join(names)}: parity of {len(found)} bundles",
            mend="leave the folders with the parity of one bundle",
        )
    front.check_room(found[0])
    return found[0]


def size_of(scheme: Scheme) -> int:
    """Bytes that restoring reads, for a progress bar."""
    return sum(extent.size for extent in scheme.extents)


def restore_from(
    folders: Sequence[Path],
    target: Path,
    console: Console,
    *,
    next_medium: NextMedium = no_other_medium,
    trusted: str = "",
) -> Restored:
    """Restore what lies in some folders, under a bar; otherwise as `restore`.

    Damage is the point here, so nothing of the medium is presumed right but what the caller has
    proven: this program, and SHA256SUMS where a key or digest was given.
    """
    with closing(Shelf(folders, next_medium)) as shelf:
        scheme = find(shelf)
        with console.stage(f"restore to {target}", size_of(scheme)) as progress:
            return restore(shelf, scheme, target, trusted=trusted, progress=progress)


def restore(
    shelf: Shelf,
    scheme: Scheme,
    target: Path,
    *,
    trusted: str = "",
    progress: Progress = ignore_progress,
) -> Restored:
    """Write the bundle as it was made to the new folder `target`.

    `trusted` is the sha256 that SHA256SUMS has to have, where it is known. Raises UsageError where
    `target` exists, IntegrityError where too much is lost, FilesystemError where the new folder
    can't be written, TargetError without the erasure library; nothing is left behind then.
    """
    there = _real(target)
    if any(there.is_relative_to(os.path.realpath(folder)) for folder in shelf.folders):
        raise UsageError(
            f"{target}: lies on the medium that is damaged",
            mend="name a folder on a disk with --to",
        )
    if os.path.lexists(target):
        raise UsageError(f"{target}: exists already", mend="name a new folder with --to")
    codec = Codec(ROWS, scheme.parity, scheme.block)
    papers = finish.papers(shelf)
    with new_folder(target) as work:
        _check_space(work, size_of(scheme))
        with closing(Mending(shelf, scheme, work)) as mending:
            mending.copy(progress)
            mending.mend(codec)
            digests = mending.finish()
        notes = finish.beside(papers, scheme, work, digests, trusted)
    return Restored(
        target, size_of(scheme), mending.rebuilt, scheme.block, mending.damaged_files(), notes
    )


def _real(target: Path) -> Path:
    """Where a folder that isn't there yet would lie."""
    try:
        os.path.realpath(target, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(
                f"{target}: links that lead in a circle", mend="name another folder with --to"
            ) from None
    return Path(os.path.realpath(target))


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FilesystemError(
            f"{folder.parent}: {free:,} bytes are free, the restored bundle takes {needed:,}",
            mend="free some space or name another folder with --to",
        )
