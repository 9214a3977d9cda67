"""Compare what lies in a folder with its listing.

Nothing that was written at install time is believed: files that conda-unpack changed are turned
back into their packed bytes and compared with the manifest.
"""

import dataclasses
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from manifests import bundle, prefix, tree
from manifests.audit.reading import Reading
from manifests.audit.report import ALTERED, EXTRA, LINK, MISSING, MODE, UNREADABLE, Finding
from manifests.console import Progress, ignore_progress
from manifests.digests import workers
from manifests.errors import IntegrityError

#: Compares a file's bytes: its path, its entry, where it was installed, what lstat(2) said of it.
BytesCheck = Callable[[Path, tree.Entry, str, os.stat_result], Finding | None]
_KINDS = {stat.S_IFREG: tree.FILE, stat.S_IFLNK: tree.LINK, stat.S_IFDIR: tree.FOLDER}


def audit_tree(
    root: Path,
    entries: Sequence[tree.Entry],
    installed_at: str = "",
    label: str = "",
    progress: Progress = ignore_progress,
) -> list[Finding]:
    """Compare a folder with its listing.

    `installed_at` is the path that conda-unpack wrote into the files with a `rewrite`; `label`
    starts the paths of the findings.
    """

    def check(entry: tree.Entry) -> Finding | None:
        finding = check_entry(root / entry.path, entry, installed_at)
        progress(entry.size)
        return finding

    with ThreadPoolExecutor(workers()) as pool:
        findings = [finding for finding in pool.map(check, entries) if finding]
    findings += extras(root, entries, {finding.path for finding in findings})
    return labelled(findings, label)


def labelled(findings: Sequence[Finding], label: str) -> list[Finding]:
    """Findings below another folder."""
    return [
        dataclasses.replace(one, path="/".join(filter(None, (label, one.path)))) for one in findings
    ]


def extras(root: Path, entries: Sequence[tree.Entry], told: Collection[str] = ()) -> list[Finding]:
    """What lies in a folder and is not listed; folders that can't be read, but for those `told`."""
    findings: list[Finding] = []

    def closed(path: str, error: OSError) -> None:
        if path not in told:
            findings.append(Finding(UNREADABLE, path, found=error.strerror or str(error)))

    try:
        if not root.is_dir():
            return []
    except OSError as error:  # a folder above it is closed
        closed("", error)
        return findings
    known = {entry.path for entry in entries}
    findings += [
        Finding(EXTRA, path, found=tree.kind_of(entry))
        for path, entry in tree.walk(root, closed)
        if path not in known
    ]
    return findings


def check_entry(path: Path, entry: tree.Entry, installed_at: str = "") -> Finding | None:
    """Compare what lies at a path with its entry; the first difference, if there is one."""
    return next(differences(path, entry, installed_at, _AT_ONCE), None)


def differences(
    path: Path, entry: tree.Entry, installed_at: str, check: BytesCheck
) -> Iterator[Finding]:
    """Compare what lies at a path with its entry, and by `check` its bytes."""
    try:
        status = path.lstat()
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        if kind != entry.kind:
            problem = LINK if tree.LINK in (kind, entry.kind) else ALTERED
            yield Finding(problem, entry.path, entry.kind, kind)
        elif kind == tree.LINK:
            target = str(path.readlink())
            if target != entry.target:
                yield Finding(LINK, entry.path, entry.target, target)
        else:
            mode = stat.S_IMODE(status.st_mode)
            if mode != entry.mode():
                yield Finding(MODE, entry.path, f"{entry.mode():04o}", f"{mode:04o}")
            if kind == tree.FILE:
                found = _check_size(entry, installed_at, status.st_size)
                found = found or check(path, entry, installed_at, status)
                yield from [found] if found else []
    except FileNotFoundError:
        yield Finding(MISSING, entry.path, entry.kind)
    except OSError as error:
        yield Finding(UNREADABLE, entry.path, found=error.strerror or str(error))


def _check_size(entry: tree.Entry, installed_at: str, size: int) -> Finding | None:
    """Length before hash: a short file need not be read to be known as wrong."""
    if entry.rewrite is None:
        same = size == entry.size
        return None if same else Finding(ALTERED, entry.path, f"{entry.size} bytes", _bytes(size))
    most = prefix.longest(entry.size, entry.rewrite, installed_at)
    if size > most:
        return Finding(ALTERED, entry.path, f"{most} bytes at the most", _bytes(size))
    return None


def _bytes(size: int) -> str:
    return f"{size} bytes"


def check_bytes(
    reading: Reading,
    tell: Progress,
    path: Path,
    entry: tree.Entry,
    installed_at: str,
    _status: os.stat_result,
) -> Finding | None:
    """Read a file; `tell` hears of its bytes. Raises OSError where it can't be read, Stopped."""
    if entry.rewrite is None:
        found = reading.digest(path, tell)
    else:
        found = packed_digest(reading.whole(path, tell), entry, installed_at)
    return None if found == entry.sha256 else Finding(ALTERED, entry.path, entry.sha256, found)


_AT_ONCE = partial(check_bytes, Reading(), ignore_progress)


def packed_digest(data: bytes, entry: tree.Entry, installed_at: str) -> str:
    """sha256 of what a volatile file was when it was packed; conda-unpack may not have run yet."""
    as_it_is = bundle.digest_of(data)
    if as_it_is == entry.sha256 or entry.rewrite is None:
        return as_it_is
    try:
        return bundle.digest_of(prefix.restore(data, entry.rewrite, installed_at))
    except IntegrityError:
        return as_it_is
