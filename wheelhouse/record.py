"""RECORD: a wheel's own list of its files, checked and written.

Format: https://packaging.python.org/specifications/recording-installed-packages/ (PEP 376) and
https://packaging.python.org/specifications/binary-distribution-format/ (PEP 427).
"""

import base64
import csv
import errno
import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

from manifests import digests
from manifests.errors import IntegrityError

#: What reading a damaged or forged wheel raises; an OSError where it sends us to a place before
#: the file's start, TypeError for a line of RECORD with more than three fields.
UNSOUND = (
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
    struct.error,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
)
#: Bytes. RECORD of torch, with over 10,000 files, has about 1 MB.
_LONGEST_TEXT = 64 << 20
#: Signatures of RECORD itself; the only files, with RECORD, that have no digest.
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True)
class Row:
    """One line: a path, the digest as "sha256=…" in URL-safe base 64 without padding, bytes."""

    path: str
    digest: str = ""
    size: str = ""


def of_bytes(path: str, data: bytes) -> Row:
    """The line of a file with these bytes."""
    hasher = digests.sha256()
    hasher.update(data)
    return of_digest(path, hasher.hexdigest(), len(data))


def of_digest(path: str, sha256: str, size: int) -> Row:
    """The line of a file with this hexadecimal digest and this many bytes."""
    encoded = base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode("ascii")
    return Row(path, f"sha256={encoded}", str(size))


def render(rows: Iterable[Row], record: str) -> bytes:
    """The file; `record` is its own path, which comes last and has no digest."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((row.path, row.digest, row.size) for row in rows)
    writer.writerow((record, "", ""))
    return text.getvalue().encode("utf-8")


def dist_info(wheel: zipfile.ZipFile, name: str) -> str:
    """The one folder *.dist-info at the top of a wheel called `name`.

    Raises IntegrityError where there is none, or more than one.
    """
    folders = {
        path.partition("/")[0] for path in wheel.namelist() if path.endswith(".dist-info/RECORD")
    }
    if len(folders) != 1:
        raise IntegrityError(f"{name}: {len(folders)} folders *.dist-info with a RECORD, needs one")
    return folders.pop()


def check(wheel: zipfile.ZipFile, name: str) -> None:
    """Compare every file of a wheel called `name` with its RECORD.

    Raises IntegrityError naming each file that is altered, missing, unlisted or listed twice, or
    saying that the wheel can't be read.
    """
    try:
        problems = _problems(wheel, dist_info(wheel, name))
    except UNSOUND as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise IntegrityError(
            f"{name}: not a sound wheel ({error})", mend="get it from another source"
        ) from None
    if problems:
        raise IntegrityError(
            f"{name}: its files are not the ones in its RECORD",
            findings=problems[:20],
            why="the wheel was changed after it was built",
            mend="get it from another source",
        )


def _problems(wheel: zipfile.ZipFile, folder: str) -> list[str]:
    text = text_of(wheel, f"{folder}/RECORD")
    rows = [Row(*line) for line in csv.reader(text.splitlines()) if line]
    listed = {row.path: row for row in rows}
    present = Counter(path for path in wheel.namelist() if not path.endswith("/"))
    unhashed = {f"{folder}/{name}" for name in _UNHASHED}
    problems = [f"{row.path}: listed twice" for row in rows if listed[row.path] is not row]
    problems += [f"{path}: there twice" for path in sorted(present) if present[path] > 1]
    problems += [f"{path}: missing" for path in listed if path not in present]
    for path in present:
        if path in unhashed:
            continue
        if path not in listed:
            problems.append(f"{path}: not in RECORD")
        elif _found(wheel, path) != listed[path]:
            problems.append(f"{path}: not the bytes that RECORD has")
    return problems


def text_of(wheel: zipfile.ZipFile, path: str, errors: str = "strict") -> str:
    """A text in a wheel; `errors` as in bytes.decode.

    Raises one of UNSOUND where it can't be read or is none, or is longer than any that we know.
    """
    size = wheel.getinfo(path).file_size  # zipfile reads no more than that
    if size > _LONGEST_TEXT:
        raise zipfile.BadZipFile(f"{path} has {size} bytes")
    return wheel.read(path).decode("utf-8", errors)


def _found(wheel: zipfile.ZipFile, path: str) -> Row:
    with wheel.open(path) as raw:
        return copied(path, raw)


def copied(path: str, source: IO[bytes], destination: IO[bytes] | None = None) -> Row:
    """The line of a file whose bytes are read from `source`, and written on if wanted."""
    hasher, size = digests.sha256(), 0
    while data := source.read(digests.CHUNK):
        hasher.update(data)
        size += len(data)
        if destination is not None:
            destination.write(data)
    return of_digest(path, hasher.hexdigest(), size)
