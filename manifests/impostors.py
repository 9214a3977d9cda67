"""What is found in place of a file: pointers, login pages, error messages, links turned into text.

Everything here is told from a file's first bytes, so that the message can say what happened
instead of what a parser stumbled over.
"""

import re
from dataclasses import dataclass

#: Bytes from a file's start that are enough to tell what it is.
SNIFFED = 1024


@dataclass(frozen=True)
class Impostor:
    """Something that is found in place of a file, and how to get the file."""

    kind: str
    pattern: re.Pattern[bytes]
    what: str
    mend: str


#: In this order; the first that matches the file's start is taken.
IMPOSTORS = (
    Impostor("empty", re.compile(rb"\Z"), "is empty", "copy or download the file again"),
    Impostor(
        "lfs-pointer",
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        "is a git-LFS pointer, not the file",
        "it was cloned without LFS: run `git lfs pull`, or name the model by its Hub name",
    ),
    Impostor(
        "link-as-text",
        re.compile(rb"(\.\./)+[\w./-]+\n?\Z"),
        "is the text of a link, not the file",
        "a medium turned links into text: copy again with `cp -rL`",
    ),
    Impostor(
        "html-instead",
        re.compile(rb"\s*<(!doctype html|html|head|\?xml|!--)", re.IGNORECASE),
        "is a web page (a login or error page?), not the file",
        "a proxy or a gate answered instead of the source: open its URL in a browser, "
        "then download again",
    ),
    Impostor(
        "json-error",
        re.compile(rb'\s*\{\s*"(error|message|detail)"\s*:'),
        "is an error message of a server, not the file",
        "read the message in the file, then download again",
    ),
    Impostor(
        "gzip",
        re.compile(rb"\x1f\x8b\x08"),
        "is compressed with gzip",
        "a proxy compressed it on the way: unpack it with `gzip -d`, or download again",
    ),
    Impostor(
        "zeros",
        re.compile(rb"\0{16,}\Z"),
        "begins with zeros only",
        "the space was reserved but never written: copy or download the file again",
    ),
)


def sniff(start: bytes) -> Impostor | None:
    """What a file that begins with `start` (SNIFFED bytes, fewer where it ends) is instead."""
    return next((found for found in IMPOSTORS if found.pattern.match(start)), None)
