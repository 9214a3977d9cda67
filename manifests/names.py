"""Which names may stand in a bundle, and how URLs are stripped of secrets before they are kept."""

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit, urlunsplit

from manifests.errors import IntegrityError

#: Names that every tar, shell and file system (FAT and exFAT too) reads in the same way.
SAFE_NAME = re.compile(r"[A-Za-z0-9_.+@=,~ ()\[\]{}!#$%&'^-]{1,255}")
#: Names on the media themselves, which pass through `sh`.
MEDIA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}")
#: Conda channels take an access token as two parts of the path, /t/TOKEN/channel.
_CONDA_TOKEN = re.compile(r"/t/[A-Za-z0-9_-]{6,}(?=/)")
DIGEST = re.compile(r"[0-9a-f]{64}")
#: Bytes of a path below a root. PATH_MAX is 4096 with the root; conda's and the Hub's are far
#: shorter, and what is done for each part of a path must stay little.
LONGEST_PATH = 2048


def check_path(path: str) -> str:
    """A relative path of safe names, unchanged.

    Raises IntegrityError for absolute paths, `.`, `..`, empty parts, odd characters and paths of
    more than LONGEST_PATH bytes.
    """
    if len(path) > LONGEST_PATH:
        raise IntegrityError(f"{path!r:.80}…: the path is too long ({len(path)} characters)")
    if path.startswith("/"):
        raise IntegrityError(f"{path!r}: absolute path")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise IntegrityError(f"{path!r}: the part {part!r} is not allowed in a path")
        if not SAFE_NAME.fullmatch(part):
            raise IntegrityError(f"{path!r}: the name {part!r} has characters that are not allowed")
    return path


def check_link(path: str, target: str) -> str:
    """The target of a symlink at `path`, unchanged.

    Raises IntegrityError where it is absolute or resolves (by its text) outside the tree.
    """
    if len(target) > LONGEST_PATH:
        raise IntegrityError(f"{path!r}: its link is too long ({len(target)} characters)")
    if target.startswith("/") or not target:
        raise IntegrityError(f"{path!r}: link to {target!r} is not relative")
    depth = len(PurePosixPath(path).parent.parts)
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            raise IntegrityError(f"{path!r}: link to {target!r} leaves the tree")
    return target


def printable(text: str) -> str:
    """A name as it can be shown: what is no letter or sign, or not UTF-8, is escaped.

    Names on media and in trees are anybody's; a line break in one must not look like a line.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def public_url(url: str) -> str:
    """A URL as it may be kept: without user, password, query, fragment and conda token."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, _CONDA_TOKEN.sub("", parts.path), "", ""))
