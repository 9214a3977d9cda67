"""RECORD: a wheel's own list of its files, checked and written.

Format: https://packaging.python.org/specifications/recording-installed-packages/ (PEP 376) and
https://packaging.python.org/specifications/binary-distribution-format/ (PEP 427).
"""

import base64
import csv
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

from manifests import digests
from manifests.errors import IntegrityError

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

    Raises IntegrityError naming each file that is altered, missing, unlisted or listed twice.
    """
    folder = dist_info(wheel, name)
    text = wheel.read(f"{folder}/RECORD").decode("utf-8")
    rows = [Row(*line) for line in csv.reader(text.splitlines()) if line]
    listed = {row.path: row for row in rows}
    present = [path for path in wheel.namelist() if not path.endswith("/")]
    problems = [f"{row.path}: listed twice" for row in rows if listed[row.path] is not row]
    problems += [
        f"{path}: there twice" for path in sorted({p for p in present if present.count(p) > 1})
    ]
    problems += [f"{path}: missing" for path in listed if path not in set(present)]
    for path in present:
        if path in {f"{folder}/{unhashed}" for unhashed in _UNHASHED}:
            continue
        if path not in listed:
            problems.append(f"{path}: not in RECORD")
        elif _found(wheel, path) != listed[path]:
            problems.append(f"{path}: not the bytes that RECORD has")
    if problems:
        raise IntegrityError(
            f"{name}: its files are not the ones in its RECORD",
            findings=problems[:20],
            why="the wheel was changed after it was built",
            mend="get it from another source",
        )


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
