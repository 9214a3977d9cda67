"""Checks of the place of the installation."""

from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict, listed
from bundlectl.host import Host
from bundlectl.layout import LONGEST_PREFIX
from manifests.console import size
from manifests.errors import FilesystemError

#: limits.h: PATH_MAX counts the final NUL, NAME_MAX doesn't.
_LONGEST_PATH, _LONGEST_NAME = 4095, 255
#: Bytes of conda's placeholder in binary files; a longer prefix can't take its place.
_LONGEST_ENVIRONMENT = 255
#: Bytes of a prefix above which TMPDIR is a short link in /tmp (bundlectl.environment).
_LONGEST_DIRECT = 60 - len("/cache/tmp")
#: Bytes that logs, and caches of compiled code, take in a server's first weeks; a cache that was
#: filled on one GPU took 360 MB on the first start.
_ROOM = 2 << 30
#: Kinds without links and modes of their own (mount(8)).
_POOR = ("vfat", "exfat", "msdos", "ntfs", "ntfs3", "fuseblk", "iso9660", "udf")
#: Kinds that are another machine's.
_REMOTE = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "virtiofs",
    "fuse.sshfs",
    "lustre",
    "gpfs",
    "beegfs",
)
#: Kinds that vanish: with the next boot, or with the container.
_PASSING = {"tmpfs": "memory", "ramfs": "memory", "overlay": "a container's own layer"}
_ELSEWHERE = "choose another --prefix"


def _disk(needs: Needs, host: Host) -> Verdict:
    place = host.storage.file_system
    missing = needs.disk - place.free
    return Verdict(
        missing <= 0,
        f"{place.free} bytes free on {place.mount} ({place.device}, {place.kind})",
        f"{needs.disk} bytes",
        f"free {missing} bytes there, or choose another --prefix",
    )


def _disk_room(needs: Needs, host: Host) -> Verdict:
    place = host.storage.cache or host.storage.file_system
    left = place.free - (needs.disk if host.storage.cache is None else 0)
    return Verdict(
        left >= _ROOM or left < 0,  # the check `disk` tells that
        f"{size(max(0, left))} are left on {place.mount} for logs and compiled code",
        size(_ROOM),
    )


def _inodes(needs: Needs, host: Host) -> Verdict:
    place = host.storage.file_system
    unlimited = place.inodes < 0
    return Verdict(
        unlimited or needs.inodes <= place.inodes,
        f"{'any number of' if unlimited else place.inodes} files can be made on {place.mount}",
        f"{needs.inodes} files",
    )


def _writable(_needs: Needs, host: Host) -> Verdict:
    place = host.storage
    if not place.forbidden:
        return Verdict(True, "all that has to be written can be")
    how = ": it is mounted read-only" if place.file_system.read_only else " by this account"
    return Verdict(False, listed(place.forbidden) + how)


def _noexec(_needs: Needs, host: Host) -> Verdict:
    place = host.storage.file_system
    return Verdict(
        not place.noexec,
        f"{place.mount} is mounted {'noexec' if place.noexec else 'exec'}",
        "exec",
        f"choose another --prefix, or run: mount -o remount,exec '{place.mount}'",
    )


def _cache(_needs: Needs, host: Host) -> Verdict:
    place = host.storage.cache
    if place is None:
        return Verdict(True, "on the prefix's own file system")
    wrong = [word for word, bad in (("noexec", place.noexec), ("ro", place.read_only)) if bad]
    return Verdict(
        not wrong,
        f"PREFIX/cache is a mount of its own, {' and '.join(wrong) or 'exec and rw'}",
        "exec and rw: compiled code is written there and loaded",
        f"run: mount -o remount,exec,rw '{place.mount}', or unmount it",
    )


def _temporary(_needs: Needs, host: Host) -> Verdict:
    length = len(host.storage.prefix.encode())
    if length <= _LONGEST_DIRECT:
        return Verdict(True, "the server's temporary folder lies below the prefix")
    found = "can be written" if host.storage.temporary else "can't be written"
    return Verdict(
        host.storage.temporary,
        f"the folder /tmp {found}",
        f"a short link in it: the prefix has {length} bytes, more than {_LONGEST_DIRECT}",
    )


def _path_length(needs: Needs, host: Host) -> Verdict:
    prefix = host.storage.prefix

    def length(below: str) -> int:
        return len(f"{prefix}/{below}".encode()) if below else 0

    name = max((len(part.encode()) for part in needs.longest_path.split("/")), default=0)
    over = max(
        length(needs.longest_path) - _LONGEST_PATH,
        length(needs.environment) - _LONGEST_ENVIRONMENT,
        len(prefix.encode()) - LONGEST_PREFIX,
    )
    return Verdict(
        over <= 0 and name <= _LONGEST_NAME,
        f"the prefix is {len(prefix.encode())} bytes long",
        f"{len(prefix.encode()) - over} bytes or fewer" if over > 0 else "",
    )


def _links(_needs: Needs, host: Host) -> Verdict:
    place = host.storage.file_system
    poor = place.kind in _POOR
    return Verdict(
        not poor,
        f"{place.mount} is {place.kind}{', which keeps no links and no modes' if poor else ''}",
        "a file system of Linux, such as ext4 or xfs" if poor else "",
    )


def _case(_needs: Needs, host: Host) -> Verdict:
    blind = host.storage.case_blind
    found = "are one file" if blind else "are two files"
    return Verdict(not blind, f"names that differ only by case {found} in {host.storage.ground}")


def _remote(_needs: Needs, host: Host) -> Verdict:
    kind = host.storage.file_system.kind
    remote = kind in _REMOTE
    found = f"{host.storage.file_system.mount} is {kind}"
    return Verdict(not remote, f"{found}, another machine's" if remote else found)


def _lasting(_needs: Needs, host: Host) -> Verdict:
    place = host.storage.file_system
    gone = _PASSING.get(place.kind, "")
    found = f"{place.mount} is {place.kind}"
    return Verdict(not gone, f"{found}, {gone}: it does not last" if gone else found)


def _open_folders(_needs: Needs, host: Host) -> Verdict:
    found = host.storage.open
    told = f"{listed(found)}: any account can replace what lies there" if found else "none"
    mend = f"run: chmod o-w '{found[0]}', or choose another --prefix" if found else ""
    return Verdict(not found, told, "", mend)


def _shut_folders(_needs: Needs, host: Host) -> Verdict:
    found = host.storage.shut
    told = f"only their owner can enter: {listed(found)}" if found else "all can be entered"
    return Verdict(not found, told)


CHECKS = (
    Check("disk", STOP, "room for every byte of the bundle, in whole blocks", _disk,
          error=FilesystemError, can_be_ignored=False),
    Check("inodes", STOP, "room for every file of the bundle", _inodes,
          "delete small files there, or choose another --prefix",
          error=FilesystemError, can_be_ignored=False),
    Check("writable", STOP, "whether this account can write what it has to", _writable,
          "run as the owner, or choose another --prefix",
          error=FilesystemError, can_be_ignored=False, at_start=True),
    Check("noexec", STOP, "whether programs may run from there", _noexec, can_be_ignored=False,
          at_start=True),
    Check("path-length", STOP, "whether names fit into the kernel's and conda's limits",
          _path_length, "choose a shorter --prefix", can_be_ignored=False),
    Check("links", STOP, "whether the file system keeps links and modes", _links, _ELSEWHERE,
          can_be_ignored=False),
    Check("case", STOP, "whether names may differ only by case", _case, _ELSEWHERE),
    Check("cache", STOP, "the server's cache, where it is a mount of its own", _cache,
          at_start=True),
    Check("temporary", STOP, "the folder /tmp, where a long prefix needs a short link in it",
          _temporary, "choose a shorter --prefix, or let this account write to /tmp",
          at_start=True),
    Check("disk-room", WARN, "what is left for logs and compiled code", _disk_room,
          "free some space there, or choose another --prefix", at_start=True),
    Check("remote", WARN, "whether another machine holds the file system", _remote,
          "choose a local disk: locks and large files of network file systems are slow or fail"),
    Check("lasting", WARN, "whether the file system outlives a boot or a container", _lasting,
          "choose a --prefix on a disk, or on a volume of the container"),
    Check("open-folders", WARN, "folders above the prefix where everybody can write",
          _open_folders),
    Check("shut-folders", INFO, "folders above the prefix that others can't enter", _shut_folders,
          "run the server as this account, or: chmod o+x these folders"),
)  # fmt: skip
