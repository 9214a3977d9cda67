"""Make parity for a bundle that lies finished in its folder; see manifests.parity.

The archive is read twice: front to back, when every file is compared with SHA256SUMS and the
digest of each block taken; and column by column, when the code is computed and each block compared
again. Memory: three columns of blocks (80 MB) and 32 bytes for each block, whatever the archive's
size (100 GB: 13 MB more).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bundler.carried import look, medium_of
from bundler.paritycode import code, digests_of
from bundler.paritylayout import layout
from manifests import bundle, medium, sums, synced
from manifests.console import Console, Progress, ignore_progress
from manifests.digests import hash_file
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.lock import Lock
from manifests.medium import INSTALLER
from manifests.newfolder import sync_folder
from manifests.parity import front
from manifests.parity.finish import write_at
from manifests.parity.names import RESTORER, belongs, head_name
from manifests.parity.scheme import MOST_PARITY
from manifests.signature import FILE_NAME as SIGNATURE
from manifests.signature import SIDECAR

#: What the isolated host needs to restore; an entry of the runtime's tree has it in its path.
_LIBRARY = "/pyeclib/"


@dataclass(frozen=True)
class Made:
    """Parity that was made."""

    folder: Path
    files: tuple[str, ...]  # new ones
    size: int  # bytes of them
    percent: int
    survives: int  # bytes in one place that may be lost, at least
    notes: tuple[str, ...]


def parse_percent(text: str) -> int:
    """Rows of parity of `5%` or `5`.

    Raises UsageError for anything that is no whole percentage from 1 to 100.
    """
    digits = text.strip().removesuffix("%").strip()
    if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits) <= MOST_PARITY):
        raise UsageError(
            f"parity of {text!r} can't be made",
            mend=f"give a whole percentage from 1 to {MOST_PARITY}, such as 5%",
        )
    return int(digits)


def reads(folder: Path) -> int:
    """Bytes that making parity reads, for a progress bar; 0 where that is not known."""
    try:
        pieces = medium.Medium(folder).pieces()
        return 2 * sum((folder / piece.name).stat().st_size for piece in pieces)
    except (BundleError, OSError):
        return 0


def add(folder: Path, percent: int, progress: Progress = ignore_progress) -> Made:
    """Put parity beside the archive, in the place of what is there of it.

    In files no longer than the first volume, where the archive lies in volumes. SHA256SUMS is
    written last; a run that is killed before leaves files that it does not name, and the same
    command mends that. Raises SourceError where a volume is missing, IntegrityError where the
    bundle is damaged, UsageError where its runtime can't restore, FilesystemError where the disk
    fails or is full, TargetError without the erasure library.
    """
    try:
        return _add(folder, percent, progress)
    except OSError as error:
        raise from_oserror(error, "making parity", error.filename or folder) from error


def _add(folder: Path, percent: int, progress: Progress) -> Made:
    found = look(medium_of([folder]))
    _check_runtime(found.manifest)
    listed = found.medium.listed()
    plan = layout(found, percent)
    first = plan.files[0].name
    with _drafts(folder, [spare.name for spare in plan.spares]) as drafts:
        table = bytearray(digests_of(folder, plan, progress))
        table += code(folder, plan, bytes(table), drafts, progress)
        plan = replace(plan, leaves=front.leaves_of(bytes(table)))
        start, end = front.render(plan, bytes(table))
        for extent in plan.extents:
            if (draft := drafts.get(extent.name)) is not None:
                write_at(draft, start, 0)
                write_at(draft, end, extent.end)
                os.fsync(draft)
                os.fchmod(draft, 0o644)
        more = {RESTORER: (folder / INSTALLER).read_bytes()}
        with (folder / first).open("rb") as source:
            more[head_name(first)] = source.read(plan.head)
        digests = {name: digest for name, digest in listed.items() if not belongs(name, first)}
        digests |= {name: hash_file(_draft(folder, name)) for name in drafts}
        digests |= {name: bundle.digest_of(data) for name, data in more.items()}
        for name, data in more.items():
            _write(folder, name, data, 0o755 if name == RESTORER else 0o644)
        for name in drafts:
            _draft(folder, name).replace(folder / name)
    notes = _drop_signatures(folder)
    listing = sums.render(digests)
    _write(folder, sums.COPY_NAME, listing, 0o644)
    _write(folder, sums.FILE_NAME, listing, 0o644)
    for path in list(folder.iterdir()):  # of earlier parity in other files, and of killed runs
        name = path.name.removeprefix(".").removesuffix(".partial")
        if path.name not in digests and belongs(name, first):
            path.unlink()
    sync_folder(folder)
    files = (*drafts, *more)
    size = sum((folder / name).stat().st_size for name in files)
    survives = (plan.parity * plan.columns - 1) * plan.block + 1
    return Made(folder, files, size, percent, survives, notes)


def finisher(percent: int, locked: Lock, console: Console) -> Callable[[Path], object]:
    """What `media.write` does with a complete folder; nothing where `percent` is 0.

    Raises UsageError where the runtime that the lock names can't restore.
    """
    if not percent:
        return lambda _folder: None
    if not any(wheel.name == "pyeclib" for wheel in locked.runtime_wheels):
        raise _can_not_restore(locked.stack)

    def finish(folder: Path) -> None:
        with console.stage(f"make parity of {percent} %", reads(folder)) as progress:
            add(folder, percent, progress)

    return finish


def _can_not_restore(what: str) -> UsageError:
    return UsageError(
        f"{what}: what is carried for the isolated host can't restore from parity",
        why="it was made by an earlier version, or from a stack without pyeclib in `runtime`",
        mend="make the lock and the bundle again, with pyeclib in the stack's `runtime`",
    )


def _check_runtime(manifest: bundle.Manifest) -> None:
    if not any(_LIBRARY in entry.path for entry in manifest.runtime):
        raise _can_not_restore(manifest.name)


@contextmanager
def _drafts(folder: Path, names: list[str]) -> Iterator[dict[str, int]]:
    """New files under names of their own, gone at the end if they were not renamed."""
    handles: dict[str, int] = {}
    try:
        for name in names:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            handles[name] = os.open(_draft(folder, name), flags, 0o644)
        yield handles
    finally:
        for name, handle in handles.items():
            os.close(handle)
            with suppress(OSError):
                _draft(folder, name).unlink(missing_ok=True)


def _draft(folder: Path, name: str) -> Path:
    return folder / f".{name}.partial"


def _write(folder: Path, name: str, data: bytes, mode: int) -> None:
    draft = _draft(folder, name)
    try:
        synced.write(draft, data, mode, new=False)
        draft.replace(folder / name)
    finally:
        draft.unlink(missing_ok=True)


def _drop_signatures(folder: Path) -> tuple[str, ...]:
    """A signature of the old list holds for nothing; better none than one that is not good."""
    notes = []
    for name in (SIGNATURE, SIDECAR):
        if (folder / name).is_file():
            (folder / name).unlink()
            notes.append(f"{name}: removed, it signs the old list; sign again with `bundle sign`")
    return tuple(notes)
