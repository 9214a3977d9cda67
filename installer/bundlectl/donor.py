"""The base of a delta: find it among the installed releases, and take from it what is not carried.

Every byte that is taken is hashed while it is copied, whatever an audit may have said of the base
before. Copies are never hard links: what alters one release must not alter two. Where a file system
can share blocks, they take no room.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from bundlectl.extract import new_file, write_all
from manifests import bundle, console, delta, members, placement, tree
from manifests.delta import Delta
from manifests.digests import CHUNK, chunks, hash_file, sha256, workers
from manifests.errors import BundleError, Damage, IntegrityError, UsageError

Progress = Callable[[int], None]
#: FICLONE of <linux/fs.h>, an ioctl; `man 2 ioctl_ficlone`.
_FICLONE = 0x40049409
#: Damaged files of a base that are named.
_NAMED = 20


@dataclass(frozen=True)
class Donor:
    """An installed release that a delta builds on, and its plain files by sha256."""

    release: str
    manifest: bundle.Manifest
    environment: Mapping[str, Path]
    parts: Mapping[str, Path]  # of its models and adapters


@dataclass(frozen=True)
class Taking:
    """A file that is to be taken."""

    source: Path
    target: Path
    entry: tree.Entry


def look(prefix: Path, manifest_sha256: str) -> Donor | None:
    """The installed release of a manifest; None where there is none.

    Raises IntegrityError where its papers are damaged.
    """
    for release in placement.installed_releases(prefix):
        with contextlib.suppress(IntegrityError, OSError):
            receipt = placement.load_receipt(placement.receipt_path(prefix, release))
            if receipt.manifest_sha256 == manifest_sha256:
                break
    else:
        return None
    manifest, _ = placement.load_manifest(prefix, release)
    environment = prefix / placement.RELEASES / release / placement.ENVIRONMENT
    return Donor(
        release,
        manifest,
        {e.sha256: environment / e.path for e in manifest.environment if delta.is_plain(e)},
        {
            member.sha256: prefix.joinpath(*manifest.place(member, release))
            for member in manifest.members
            if members.part_of(member.path, manifest.parts()) is not None
        },
    )


def find(prefix: Path, carried: bundle.Manifest) -> Donor | None:
    """What a bundle builds on; None for a whole one, which builds on nothing.

    Raises UsageError where the base is not installed, IntegrityError where the delta does not fit
    it or its papers are damaged.
    """
    made = carried.delta
    if made is None:
        return None
    donor = look(prefix, made.base_sha256)
    if donor is None:
        raise _not_installed(prefix, made)
    delta.check_base(
        made,
        carried.members,
        carried.environment,
        donor.manifest.members,
        donor.manifest.environment,
    )
    return donor


def size(carried: bundle.Manifest) -> int:
    """Bytes that a bundle does not carry; 0 for a whole one."""
    made = carried.delta
    if made is None:
        return 0
    files = delta.split(carried.environment, made.runs)[1]
    return delta.share([*files, *delta.taken_members(made, carried.members)]).size


def told(carried: bundle.Manifest) -> str:
    """A delta in a sentence; empty for a whole bundle."""
    made = carried.delta
    if made is None:
        return ""
    return f"a delta: {console.size(size(carried))} are taken from the installed {made.base}"


def _not_installed(prefix: Path, made: Delta) -> UsageError:
    installed = []
    for release in placement.installed_releases(prefix):
        try:
            receipt = placement.load_receipt(placement.receipt_path(prefix, release))
            installed.append(f"{release} (manifest {receipt.manifest_sha256})")
        except (BundleError, OSError):
            installed.append(f"{release} (its receipt is damaged)")
    return UsageError(
        f"this is a delta on {made.base} (manifest {made.base_sha256}), "
        f"which is not installed in {prefix}",
        why="it carries only what that bundle has not; "
        f"installed: {', '.join(installed) or 'nothing'}",
        mend="install that bundle from its medium first (sh install.sh install --no-start there), "
        "or carry the whole bundle",
    )


def missing(
    carried: bundle.Manifest,
    donor: Donor,
    environment: Path,
    place: Callable[[bundle.Member], Path | None],
) -> list[Taking]:
    """Everything that is not carried: where it is, and where it goes.

    `environment` is the folder of the environment; `place` says where a member goes, None for one
    that is there.
    """
    made = carried.delta
    if made is None:
        return []
    found = [
        Taking(donor.environment[entry.sha256], environment / entry.path, entry)
        for entry in delta.split(carried.environment, made.runs)[1]
    ]
    for member in delta.taken_members(made, carried.members):
        if (target := place(member)) is not None:
            entry = tree.Entry(member.path, size=member.size, sha256=member.sha256)
            found.append(Taking(donor.parts[member.sha256], target, entry))
    return found


def take(donor: Donor, files: Sequence[Taking], progress: Progress) -> None:
    """Copy files out of a base, on all cores; those that are there and right are kept.

    Their folders exist, and nothing is synced. Raises IntegrityError naming what is damaged,
    OSError where a copy can't be written.
    """
    damages = []
    with ThreadPoolExecutor(workers()) as pool:
        for file, damage in zip(files, pool.map(_damage, files), strict=True):
            progress(file.entry.size)
            if damage is not None:
                damages.append(damage)
    if damages:
        raise IntegrityError(
            f"{damages[0].path}: damaged, and the bundle takes it from there",
            findings=[damage.what for damage in damages[:_NAMED]],
            why=f"a delta builds on the release {donor.release}, of which {len(damages)} files "
            "are not as they were installed",
            mend=f"mend that release ({placement.REPAIR}), then run the same command again; "
            "or carry the whole bundle",
        )


def _damage(file: Taking) -> Damage | None:
    try:
        copy(file)
    except Damage as damage:
        return damage
    return None


def copy(file: Taking) -> None:
    """Copy one file, unless it is there.

    Raises Damage where the source is not what it should be, OSError where it can't be written.
    """
    target, entry = file.target, file.entry
    with contextlib.suppress(FileNotFoundError):
        if _is_whole(target, entry):
            target.chmod(entry.mode())
            return
        target.unlink()
    hasher = sha256()
    with _opened(file) as source, new_file(target) as out:
        if _shares_blocks(source, out):
            for view in chunks(out, chunk=min(CHUNK, entry.size + 1)):
                hasher.update(view)
        else:
            for view in _read(source, file):
                hasher.update(view)
                write_all(out, view)
        if hasher.hexdigest() != entry.sha256:
            raise Damage(str(file.source), entry.sha256, hasher.hexdigest())
        os.fchmod(out.fileno(), entry.mode())


def read(file: Taking) -> Iterator[memoryview]:
    """The bytes of a source; who takes them compares them.

    Raises Damage where there is no such file.
    """
    with _opened(file) as source:
        yield from _read(source, file)


def _is_whole(path: Path, entry: tree.Entry) -> bool:
    status = path.lstat()
    same = stat.S_ISREG(status.st_mode) and status.st_size == entry.size
    return same and hash_file(path) == entry.sha256


def _opened(file: Taking) -> FileIO:
    """A source.

    Raises Damage where it can't be opened, or something else lies in its place.
    """
    # Without O_NONBLOCK the open itself waits for somebody to write into a pipe.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = FileIO(os.open(file.source, flags), "rb")
    except OSError as error:
        raise _unreadable(file, error) from None
    status = os.fstat(handle.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size != file.entry.size:
        handle.close()
        raise Damage(
            str(file.source),
            f"a file of {file.entry.size} bytes",
            f"{status.st_size} bytes" if stat.S_ISREG(status.st_mode) else "no regular file",
        )
    return handle


def _shares_blocks(source: FileIO, out: FileIO) -> bool:
    """Let the copy share the source's blocks, where the file system can."""
    try:
        fcntl.ioctl(out.fileno(), _FICLONE, source.fileno())
    except OSError:
        return False
    return True


def _read(source: FileIO, file: Taking) -> Iterator[memoryview]:
    try:
        yield from chunks(source, chunk=min(CHUNK, file.entry.size + 1))
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Taking, error: OSError) -> Damage:
    return Damage(str(file.source), file.entry.sha256, error.strerror or str(error))
