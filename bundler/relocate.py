"""Contents of an environment made independent of the folder and machine that it was built on."""

import csv
import io
import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from wheelhouse.record import of_bytes

#: Starts the Python beside the script, whatever the folder is called, also through a symlink: to
#: the shell two commands, to Python a comment and a string.
_HEADER = """#!/bin/sh
'''exec' "$(dirname -- "$(readlink -f -- "$0")")/python"{options} "$0" "$@"
' '''
"""
#: What pip, distlib and rattler write: `#!PREFIX/bin/python`, and where that is too long for the
#: kernel or holds a space, a shell's detour.
_SHEBANGS = (
    r"#! *{prefix}/bin/python[\d.]*(?P<options>[^\n]*)\n",
    r"#!/bin/sh\n'''exec' \"?{prefix}/bin/python[\d.]*\"?(?P<options>[^\n]*?) \"\$0\" \"\$@\""
    r"(?:\n' '''| #''')\n",
)
#: conda-meta's fields that hold paths of the builder or what its user typed.
_BUILDER_FIELDS = (
    "extracted_package_dir", "package_tarball_full_path", "requested_spec", "requested_specs",
)  # fmt: skip


def header(options: str = "") -> bytes:
    """First lines of a script that runs under the Python in its own folder.

    `options` are the interpreter's, with a leading space.
    """
    return _HEADER.format(options=options).encode()


def script(data: bytes, prefix: bytes) -> bytes:
    """A Python script with a relocatable header, where it had one that names `prefix`."""
    for pattern in _SHEBANGS:
        expression = pattern.replace("{prefix}", re.escape(prefix.decode()))
        if match := re.match(expression.encode(), data):
            return header(match["options"].decode().rstrip()) + data[match.end() :]
    return data


def record(text: bytes, folder: str, changed: Mapping[str, bytes | None]) -> bytes:
    """A wheel's RECORD that is true of the packed tree.

    `folder` is the one that RECORD's paths are relative to; `changed` holds new bytes by path in
    the environment, None for files that are not packed.
    """
    rows = []
    for row in csv.reader(io.StringIO(text.decode("utf-8"), newline="")):
        path = posixpath.normpath(posixpath.join(folder, row[0]))
        data = changed.get(path, b"")
        if data is None:
            continue
        if path in changed and row[1:2] != [""]:
            true = of_bytes(row[0], data)
            row = [true.path, true.digest, true.size]
        rows.append(row)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def conda_meta(text: bytes) -> bytes:
    """A record of conda-meta without paths of the builder, or digests that hold only there."""
    data: dict[str, Any] = json.loads(text)
    for name in _BUILDER_FIELDS:
        data.pop(name, None)
    if data.get("link"):
        data["link"]["source"] = ""
    for path in data.get("paths_data", {}).get("paths", ()):
        # Beside such a digest the size is the one in the prefix too.
        if path.pop("sha256_in_prefix", None):
            path.pop("size_in_bytes", None)
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"
