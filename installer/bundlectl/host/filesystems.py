"""The file systems below an installation, and the folders above it."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bundlectl.host.reading import text


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system, for the account that asks."""

    mount: str  # where it is mounted
    device: str
    kind: str  # "ext4", "tmpfs", …
    block: int  # bytes; a file takes whole blocks
    free: int  # bytes that this account may still use
    inodes: int  # files that this account may still make; -1 where there is no such limit
    noexec: bool = False
    read_only: bool = False
    size: int = 0  # bytes in all


@dataclass(frozen=True)
class Storage:
    """Where the installation lies, or is to lie, and the places beside it that a server uses."""

    prefix: str
    ground: str  # the nearest folder above the prefix, or the prefix, that exists
    file_system: FileSystem  # of the prefix
    forbidden: tuple[str, ...] = ()  # "/data can't be written", by this account, which has to
    cache: FileSystem | None = None  # of PREFIX/cache, where that is another one
    shm: FileSystem | None = None  # /dev/shm; None where it is missing or can't be written
    temporary: bool = True  # /tmp can be written
    case_blind: bool = False  # names that differ only in case are one
    shut: tuple[str, ...] = ()  # folders down to the ground that other accounts can't enter
    open: tuple[str, ...] = ()  # and those where any account can replace what lies in them


def read_storage(prefix: Path, written: Sequence[Path] = (), read: Sequence[Path] = ()) -> Storage:
    """Look at the places of an installation.

    `written` and `read` are what this account has to reach; by default it writes the prefix.
    Raises OSError where the file system of the prefix can't be read.
    """
    ground = next(place for place in (prefix, *prefix.parents) if place.is_dir())
    own, cache = file_system(ground), prefix / "cache"
    beside = file_system(cache) if cache.is_dir() else own
    way = (ground, *ground.parents)
    return Storage(
        prefix=str(prefix),
        ground=str(ground),
        file_system=own,
        forbidden=forbidden(written or (prefix,), read),
        cache=None if beside.mount == own.mount else beside,
        shm=_shared(Path("/dev/shm")),  # noqa: S108 - looked at, not used
        temporary=_writable(Path("/tmp")),  # noqa: S108 - looked at, not used
        case_blind=case_blind(ground),
        shut=tuple(str(place) for place in way if not _mode(place) & stat.S_IXOTH),
        open=tuple(str(place) for place in way if _replaceable(_mode(place))),
    )


def file_system(folder: Path) -> FileSystem:
    """The file system that holds a folder.

    Raises OSError.
    """
    numbers = os.statvfs(folder)
    device, mount, kind = mounted(text("/proc/self/mountinfo"), folder.stat().st_dev, folder)
    return FileSystem(
        mount=mount,
        device=device,
        kind=kind,
        block=numbers.f_frsize,
        free=numbers.f_bavail * numbers.f_frsize,
        # btrfs and others make inodes as they go and say 0.
        inodes=numbers.f_favail if numbers.f_files else -1,
        noexec=bool(numbers.f_flag & os.ST_NOEXEC),
        read_only=bool(numbers.f_flag & os.ST_RDONLY),
        size=numbers.f_blocks * numbers.f_frsize,
    )


def mounted(mountinfo: str, device: int, folder: Path) -> tuple[str, str, str]:
    """Device, mount point and kind of the file system of a folder, from proc(5)'s mountinfo."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    path = str(folder.resolve())
    best = ("unknown", "/", "unknown")
    length = -1
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 2:
            continue
        mount = _unescape(fields[4])
        below = path == mount or path.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one place is the one that is seen. Device numbers of
        # btrfs subvolumes differ from mountinfo's, hence only a preference.
        rank = len(mount) + (10_000 if fields[2] == wanted else 0)
        if below and rank >= length:
            best, length = (_unescape(tail[1]), mount, tail[0]), rank
    return best


def mount_points() -> tuple[Path, ...]:
    """Every place, a folder or a file, on which something is mounted, from proc(5)'s mountinfo."""
    rows = (line.split() for line in text("/proc/self/mountinfo").splitlines())
    return tuple(Path(_unescape(fields[4])) for fields in rows if len(fields) > 4)


def forbidden(written: Sequence[Path], read: Sequence[Path] = ()) -> tuple[str, ...]:
    """What this account can't write, or read; where a place is missing, the folder for it."""
    told = [f"{one} can't be written" for one in map(_nearest, written) if not _writable(one)]
    told += [f"{one} can't be read" for one in map(_nearest, read) if not _readable(one)]
    return tuple(dict.fromkeys(told))


def case_blind(folder: Path) -> bool:
    """Whether the file system takes two spellings of a folder's name for one; writes nothing.

    Folders whose names have no letters say nothing, and their parents are asked.
    """
    for place in (folder, *folder.parents):
        other = place.with_name(place.name.swapcase()) if place.name else place
        if other.name == place.name:
            continue
        try:
            return os.path.samestat(place.lstat(), other.lstat())
        except OSError:  # missing, too long, refused: nothing says that the two are one
            return False
    return False


def _unescape(line: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        line = line.replace(code, char)
    return line


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _readable(place: Path) -> bool:
    return os.access(place, os.R_OK | os.X_OK if place.is_dir() else os.R_OK)


def _nearest(path: Path) -> Path:
    """A path, or what there is above it; Path.exists() fails below a folder that is shut."""
    return next(one for one in (path, *path.parents) if os.path.exists(one))  # noqa: PTH110


def _shared(folder: Path) -> FileSystem | None:
    try:
        return file_system(folder) if _writable(folder) else None
    except OSError:
        return None


def _mode(folder: Path) -> int:
    try:
        return folder.stat().st_mode
    except OSError:
        return stat.S_IXOTH


def _replaceable(mode: int) -> bool:
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
