"""Our own code in a bundle's runtime: as it is on this machine, or as a manifest lists it."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from bundler.pack import OURS
from bundler.papers.gathering_assembly import Code
from manifests import __version__, tree
from manifests.bundle import Manifest
from manifests.digests import hash_file
from manifests.errors import from_oserror

_PLACE = re.compile(rf"lib/python3[^/]*/site-packages/((?:{'|'.join(OURS)})/.+)")
_CACHES = "__pycache__"


def of_this_program() -> Code:
    """What `bundle create` would put into a runtime now: see `bundler.pack.stage_runtime`.

    Raises FilesystemError where it can't be read.
    """
    try:
        return Code(__version__, tuple(sorted(_here())))
    except OSError as error:
        raise from_oserror(error, "reading our own code") from error


def _here() -> Iterator[tuple[str, int, str]]:
    for name in OURS:
        spec = importlib.util.find_spec(name)  # found, not imported: it is the other side's code
        assert spec is not None and spec.origin is not None
        top = Path(spec.origin).parent
        for path in top.rglob("*"):
            parts = path.relative_to(top).parts
            hidden = any(part == _CACHES or part.startswith(".") for part in parts)
            if path.is_file() and not hidden:
                yield "/".join((name, *parts)), path.stat().st_size, hash_file(path)


def of_manifest(manifest: Manifest) -> Code:
    """What a bundle's runtime holds."""
    files = [
        (found[1], entry.size, entry.sha256)
        for entry in manifest.runtime
        if entry.kind == tree.FILE
        and _CACHES not in entry.path.split("/")
        and (found := _PLACE.fullmatch(entry.path))
    ]
    return Code(manifest.tool.rpartition(" ")[2], tuple(sorted(files)))
