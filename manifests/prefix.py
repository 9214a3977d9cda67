"""conda-unpack's replacement of a prefix, and its exact inverse.

`bin/conda-unpack` changes the few *volatile* files of an environment when it is installed. An
auditor turns an installed file back into the packed bytes here and compares those with the
manifest, so that nothing written at install time has to be trusted.

The rules are conda-pack 0.9's (`conda_pack/prefixes.py`, POSIX branch):

- text: every occurrence of the placeholder becomes the prefix;
- binary: within each NUL-terminated string every occurrence from the first on becomes the prefix,
  and NUL bytes after the string keep the file's length. The prefix can't be the longer of the two.

Limits: a packed file that already holds the install prefix by itself can't be told from one where
it was put. The common case is a prefix so short that it is part of ordinary text, "/usr" or
"/opt". `reversible` answers that for one file before it is changed; the installer asks it first.
"""

import re

from manifests.errors import IntegrityError, TargetError
from manifests.tree import BINARY as BINARY
from manifests.tree import TEXT as TEXT
from manifests.tree import Rewrite


def apply(data: bytes, rewrite: Rewrite, prefix: str) -> bytes:
    """The bytes of a packed file after conda-unpack under `prefix`, an absolute path.

    Raises TargetError where a binary file has no room for the prefix.
    """
    placeholder, new = rewrite.placeholder.encode(), prefix.encode()
    if _mode(rewrite) == TEXT:
        return data.replace(placeholder, new)
    room = len(placeholder) - len(new)
    if room < 0:
        raise TargetError(
            f"the path {prefix!r} has {len(new)} bytes, at most {len(placeholder)} fit",
            why="compiled files hold the path in fields of a fixed length",
            mend="install below a shorter path",
        )

    def replaced(match: re.Match[bytes]) -> bytes:
        string = match.group()
        return string.replace(placeholder, new) + b"\0" * (room * string.count(placeholder))

    last = data.rfind(b"\0") + 1  # behind it no string ends, and looking for one takes long
    return _strings(placeholder).sub(replaced, data[:last]) + data[last:]


def longest(size: int, rewrite: Rewrite, prefix: str) -> int:
    """The most bytes that a packed file of `size` bytes has after conda-unpack under `prefix`."""
    old, new = len(rewrite.placeholder.encode()), len(prefix.encode())
    grown = size // old * (new - old) if old and rewrite.mode == TEXT else 0
    return size + max(grown, 0)


def restore(data: bytes, rewrite: Rewrite, prefix: str) -> bytes:
    """The packed bytes of an installed file; the inverse of `apply`.

    Different files never restore to the same bytes. Raises IntegrityError where conda-unpack can't
    have made this file from any packed one, for example because it was never run.
    """
    undo = _undo_text if _mode(rewrite) == TEXT else _undo_binary
    packed = undo(data, rewrite.placeholder.encode(), prefix.encode())
    if apply(packed, rewrite, prefix) != data:
        raise IntegrityError("conda-unpack makes no such file from any packed one")
    return packed


def _undo_text(data: bytes, placeholder: bytes, old: bytes) -> bytes:
    return data.replace(old, placeholder)


def _undo_binary(data: bytes, placeholder: bytes, old: bytes) -> bytes:
    room = len(placeholder) - len(old)
    if room < 0:
        raise IntegrityError(f"a binary file can't hold the path {old.decode()!r}: it is too long")
    pieces, done = [], 0
    last = data.rfind(b"\0") + 1  # behind it no string ends, and looking for one takes long
    while match := _strings(old).search(data, done, last):
        string = match.group()
        end = match.end() + room * string.count(old)
        if data[match.end() : end].strip(b"\0") or end > len(data):
            raise IntegrityError(f"the padding after {string[:80]!r} is not conda-unpack's")
        pieces += [data[done : match.start()], string.replace(old, placeholder)]
        done = end
    return b"".join([*pieces, data[done:]])


def reversible(data: bytes, rewrite: Rewrite, prefix: str) -> bool:
    """Whether a packed file can be recovered from what conda-unpack makes of it under `prefix`."""
    try:
        return restore(apply(data, rewrite, prefix), rewrite, prefix) == data
    except IntegrityError:
        return False


def _strings(start: bytes) -> re.Pattern[bytes]:
    """From the first `start` in a NUL-terminated string to its NUL."""
    return re.compile(re.escape(start) + b"[^\0]*\0")


def _mode(rewrite: Rewrite) -> str:
    if rewrite.mode not in (TEXT, BINARY) or not rewrite.placeholder:
        raise IntegrityError(
            f"unknown rewrite: mode {rewrite.mode!r}, placeholder {rewrite.placeholder!r}"
        )
    return rewrite.mode
