"""The outer tar, byte for byte.

A bundle is one uncompressed tar in GNU format (sizes above 8 GiB are base-256 there, which BusyBox
reads; it misreads PAX records). Headers, padding and trailer are a pure function of the manifest,
so a reader does not parse what it finds: it compares it with what must be there. Nothing can hide
in a header, between members or after the end.

Format: https://www.gnu.org/software/tar/manual/html_node/Standard.html
"""

import tarfile
from collections.abc import Iterable

from manifests import tree

BLOCK = tarfile.BLOCKSIZE
#: GNU tar pads an archive to whole records of 20 blocks.
RECORD = tarfile.RECORDSIZE
MANIFEST_NAME = "bundle.json"
#: The time of every file in a packed tree: the earliest that zip archives know. It is not the
#: bundle's, so that two bundles with the same environment share its bytes.
TREE_TIME = 315_532_800
_TYPES = {tree.FILE: tarfile.REGTYPE, tree.FOLDER: tarfile.DIRTYPE, tree.LINK: tarfile.SYMTYPE}
#: A manifest lists at most a few hundred thousand files; more is an attack on memory.
MANIFEST_LIMIT = 64 << 20


def header(name: str, size: int, mtime: int) -> bytes:
    """The header of a regular file of `size` bytes, with a long-name block before it if needed."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def entry_header(entry: tree.Entry) -> bytes:
    """The header of an entry of a packed tree, with long-name blocks before it if needed."""
    info = tarfile.TarInfo(entry.path)
    info.size, info.mode, info.mtime = entry.size, entry.mode(), TREE_TIME
    info.type, info.linkname = _TYPES[entry.kind], entry.target
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def padding(size: int) -> bytes:
    """The zeros between a member's last byte and the next block."""
    return bytes(-size % BLOCK)


def trailer(length: int) -> bytes:
    """The zeros that end an archive whose members took `length` bytes."""
    return bytes(2 * BLOCK + -(length + 2 * BLOCK) % RECORD)


def member_length(name: str, size: int) -> int:
    """Bytes that a member takes in the archive, header and padding included."""
    return len(header(name, size, 0)) + size + -size % BLOCK


def total_length(members: Iterable[tuple[str, int]]) -> int:
    """Bytes of the whole archive for (name, size) in order."""
    length = sum(member_length(name, size) for name, size in members)
    return length + len(trailer(length))
