"""SHA256SUMS, strictly: what `sha256sum -c` reads, but failing closed.

`sha256sum -c` ignores comments, warns about malformed lines, follows links and does not notice
files that no line names. Here a line is 64 hex digits, two spaces and a plain file name, each name
once, no other line; and every file of the folder has to have one.
"""

import re
from collections.abc import Mapping

from manifests.errors import IntegrityError
from manifests.names import MEDIA_NAME

FILE_NAME = "SHA256SUMS"
#: The same bytes again, beside a bundle with parity; see manifests.parity.
COPY_NAME = f"{FILE_NAME}.copy"
#: The list itself, its copy and its detached signatures are the only files without a line;
#: model.sig is OpenSSF's, for their tool.
UNLISTED = frozenset({FILE_NAME, COPY_NAME, f"{FILE_NAME}.sig", "model.sig"})
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def render(digests: Mapping[str, str]) -> bytes:
    """The list for file name → sha256, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode("ascii")


def parse(data: bytes) -> dict[str, str]:
    """File name → sha256.

    Raises IntegrityError naming the line that is malformed, repeated, or has carriage returns.
    """
    if b"\r" in data:
        raise IntegrityError(
            f"{FILE_NAME}: its lines end in CR LF",
            why="the medium or the way there treated it as text (Windows, FTP, mail)",
            mend="copy the folder again in binary mode",
        )
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise IntegrityError(f"{FILE_NAME}: not plain ASCII") from None
    if not text.endswith("\n"):
        raise IntegrityError(f"{FILE_NAME}: its last line is cut off")
    digests: dict[str, str] = {}
    for number, line in enumerate(text[:-1].split("\n"), 1):
        match = _LINE.fullmatch(line)
        if match is None or not MEDIA_NAME.fullmatch(match[2]) or match[2] in UNLISTED:
            raise IntegrityError(f"{FILE_NAME}: line {number} is malformed: {line!r:.100}")
        if match[2] in digests:
            raise IntegrityError(f"{FILE_NAME}: line {number} names {match[2]} again")
        digests[match[2]] = match[1]
    return digests
