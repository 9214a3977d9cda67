"""Volumes: an archive in pieces that fit the medium, each of which knows where it belongs.

Every piece starts with one block, a GNU tar volume label (type `V`, which tar skips), whose name
says `ARCHIVE NUMBER/COUNT MANIFEST_SHA256`; the rest is the next slice of the archive. So the first
volume can be read by `tar` for the manifest and the runtime, and discs of two bundles, or two discs
of one, can't be taken for each other. An archive in one piece has no label.
"""

import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from manifests.archive import BLOCK
from manifests.errors import IntegrityError, UsageError
from manifests.names import DIGEST

#: Sizes in bytes of what media take as one file. FAT32's limit is 4 GiB - 1; the disc sizes are
#: those of ECMA-267 (DVD, 4.7 GB) and of a 25 GB BD-R, less 1 % for the file system.
PRESETS = {"fat32": (4 << 30) - 1, "dvd": 4_650_000_000, "bd": 24_750_000_000}
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15})\s*([KMG]I?)?B?", re.IGNORECASE)
#: A volume holds at least the manifest's header and a little of what follows.
SMALLEST = 64 << 10
#: Numbers have three digits, so that names sort.
MOST = 1000


@dataclass(frozen=True)
class Label:
    """What a volume says about itself."""

    archive: str
    number: int  # from 0
    count: int
    manifest_sha256: str

    def block(self, mtime: int) -> bytes:
        """The volume's first block."""
        info = tarfile.TarInfo(f"{self.number:03}/{self.count:03} {self.manifest_sha256}")
        info.type = b"V"
        info.mtime, info.linkname = mtime, self.archive[:100]
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")

    @property
    def filename(self) -> str:
        """The volume's file name."""
        return volume_name(self.archive, self.number)


def volume_name(archive: str, number: int) -> str:
    """The file name of a volume."""
    return f"{archive}.{number:03}"


def parse_label(block: bytes, filename: str) -> Label:
    """Read a volume's first block.

    Raises IntegrityError where it is none.
    """
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        place, _, digest = info.name.partition(" ")
        number, _, count = place.partition("/")
        label = Label(filename.rpartition(".")[0], int(number), int(count), digest)
        good = label.block(int(info.mtime)) == block
    except (tarfile.TarError, ValueError, OverflowError):
        good = False
    if not good or not DIGEST.fullmatch(label.manifest_sha256):
        raise IntegrityError(
            f"{filename}: does not start with a volume's label",
            why="it is not a volume of a bundle, or its first block was altered",
            mend="copy that volume to the medium again",
        )
    return label


def parse_size(text: str) -> int:
    """Bytes of `fat32`, `dvd`, `bd`, `4000M`, `4GiB`.

    Raises UsageError for anything else and for sizes that can't hold a bundle.
    """
    match = _SIZE.fullmatch(text.strip())
    if text.lower() in PRESETS:
        size = PRESETS[text.lower()]
    elif match:
        size = int(match[1]) * _UNITS[(match[2] or "").upper()]
    else:
        raise UsageError(
            f"volume size {text!r} can't be read",
            mend=f"give {', '.join(PRESETS)}, or a size such as 4000M or 4GiB",
        )
    if size < SMALLEST:
        raise UsageError(
            f"volume size {text}: {size} bytes are too few", mend=f"give at least {SMALLEST} bytes"
        )
    return size


def count_for(length: int, size: int) -> int:
    """How many volumes of at most `size` bytes an archive of `length` bytes takes.

    Raises UsageError where they are too many.
    """
    count = -(-length // (size - BLOCK))
    if count > MOST:
        raise UsageError(
            f"{count} volumes of {size} bytes would be needed, {MOST} is the most",
            mend="choose a larger volume size",
        )
    return count


def lengths(length: int, found: Sequence[int | None]) -> list[int] | None:
    """Bytes that each volume of an archive of `length` bytes has to have.

    All but the last are as long as each other, and no list says how long: each volume that was
    `found` (its bytes; None: not at hand) votes. None where no size wins: then only the digests
    can tell which volume is wrong.
    """
    others = len(found) - 1
    votes = Counter(size - BLOCK for size in found[:-1] if size is not None)
    if found[-1] is not None and others:
        share, rest = divmod(length - (found[-1] - BLOCK), others)
        if not rest:
            votes[share] += 1
    votes = Counter({v: n for v, n in votes.items() if 0 < length - others * v <= v})
    ranked = votes.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    full = ranked[0][0]
    return [*[full + BLOCK] * others, length - others * full + BLOCK]
