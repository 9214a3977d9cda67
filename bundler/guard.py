"""Look an environment over before it is packed: everything wrong with it, in one report.

conda-pack takes conda's files from the package cache, so a file that something overwrote in the
environment would silently be packed as the original; and links or editable installs that work here
would break on the isolated host.
"""

import csv
import json
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from manifests import digests, tree
from manifests.errors import IntegrityError, from_oserror
from manifests.names import check_path

#: Folders whose names differ only by case and are not packed; see bundler.layout.
_CASE_TWINS = "share/terminfo/"
#: How many findings one report holds.
_FINDINGS = 200


@dataclass(frozen=True)
class _Tree:
    """Everything below the prefix, read once: relative path → kind."""

    prefix: Path
    kinds: dict[str, str]

    def files(self, suffix: str) -> Iterator[str]:
        """Paths of everything but folders whose name ends so."""
        return (
            path
            for path, kind in self.kinds.items()
            if kind != tree.FOLDER and path.endswith(suffix)
        )


def check(prefix: Path) -> None:
    """Refuse an environment that would not be the same, or not work, on the isolated host.

    Raises IntegrityError with every finding, FilesystemError where the environment can't be read.
    """
    try:
        below = _Tree(prefix, {path: tree.kind_of(entry) for path, entry in tree.walk(prefix)})
        looks = (_conda, _names, _kinds, _links, _bytecode, _editable, _search_paths)
        findings = list(chain.from_iterable(look(below) for look in looks))
    except OSError as error:
        raise from_oserror(error, "checking the environment") from error
    if findings:
        more = len(findings) - _FINDINGS
        raise IntegrityError(
            f"the environment can't be packed: {len(findings)} findings",
            findings=[*findings[:_FINDINGS], *([f"and {more} more"] if more > 0 else [])],
            mend="make the environment again from the lock; install Python packages as wheels only",
        )


def _conda(below: _Tree) -> Iterator[str]:
    """Files of conda packages that are missing, or not what conda-meta recorded."""
    wanted: dict[Path, tuple[str, str, set[str]]] = {}
    for owner, path, allowed in _recorded(below.prefix):
        kind = below.kinds.get(path)
        if kind is None:
            yield f"{path}: missing; conda package {owner} put it there"
        elif kind == tree.FILE and allowed:
            wanted[below.prefix / path] = owner, path, allowed
    for file, digest in digests.hash_files(wanted):
        owner, path, allowed = wanted[file]
        if isinstance(digest, OSError):
            yield f"{path}: can't be read ({digest.strerror})"
        elif digest not in allowed:
            yield f"{path}: altered since conda package {owner} was linked"


def _recorded(prefix: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Package, path and possible digests of everything in conda-meta; links have no digest."""
    for meta in sorted((prefix / "conda-meta").glob("*.json")):
        record: dict[str, Any] = json.loads(meta.read_bytes())
        for path in record["paths_data"]["paths"]:
            # What was rewritten for this prefix has a digest of its own.
            digest = path.get("sha256_in_prefix") or path.get("sha256")
            softlink = path["path_type"] == "softlink"
            yield record["name"], path["_path"], {digest} - {None} if not softlink else set()


def _names(below: _Tree) -> Iterator[str]:
    seen: dict[str, str] = {}
    for path in below.kinds:
        try:
            check_path(path)
        except IntegrityError as error:
            yield error.what
        twin = seen.setdefault(path.casefold(), path)
        if twin != path and not path.startswith(_CASE_TWINS):
            yield f"{path}: differs from {twin} only by case"


def _kinds(below: _Tree) -> Iterator[str]:
    for path, kind in below.kinds.items():
        if kind not in (tree.FILE, tree.LINK, tree.FOLDER):
            yield f"{path}: a {kind}; only files, links and folders can be packed"
        elif kind == tree.FILE and (below.prefix / path).stat().st_mode & (
            stat.S_ISUID | stat.S_ISGID
        ):
            yield f"{path}: runs with its owner's rights (setuid or setgid)"


def _links(below: _Tree) -> Iterator[str]:
    root = below.prefix.resolve()
    for path, kind in below.kinds.items():
        if kind != tree.LINK:
            continue
        link = below.prefix / path
        target = link.readlink()
        if target.is_absolute():
            yield f"{path}: link to the absolute path {target}"
        elif not link.exists():
            yield f"{path}: link to {target}, which is not there"
        elif not link.resolve().is_relative_to(root):
            yield f"{path}: link to {target} leaves the environment"


def _bytecode(below: _Tree) -> Iterator[str]:
    """Bytecode that was made here; some wheels (numpy 2.4) bring some, with a digest in RECORD."""
    found = set(below.files(".pyc"))
    if not found:
        return
    for record in below.files(".dist-info/RECORD"):
        folder = posixpath.dirname(posixpath.dirname(record))
        with (below.prefix / record).open(encoding="utf-8", newline="") as handle:
            published = (row[0] for row in csv.reader(handle) if len(row) > 1 and row[1])
            found -= {posixpath.normpath(posixpath.join(folder, path)) for path in published}
    for path in sorted(found):
        yield f"{path}: bytecode, which holds paths of this machine"


def _editable(below: _Tree) -> Iterator[str]:
    for path in below.files(".egg-link"):
        yield f"{path}: an editable install"
    for path in below.files(".dist-info/direct_url.json"):
        try:
            origin = json.loads((below.prefix / path).read_bytes())
            editable, url = origin.get("dir_info", {}).get("editable"), origin.get("url", "")
        except (ValueError, AttributeError):
            yield f"{path}: can't be read as JSON"
            continue
        if editable:
            yield f"{path}: an editable install"
        elif url.startswith("file:"):
            yield f"{path}: installed from {url}; that path would be kept"


def _search_paths(below: _Tree) -> Iterator[str]:
    """Lines of .pth files that name folders outside, or the folder that this environment is in."""
    root = below.prefix.resolve()
    own = {str(below.prefix), str(root)}
    for path in below.files(".pth"):
        text = (below.prefix / path).read_text("utf-8", "replace")
        folder = (below.prefix / path).resolve().parent
        for line in filter(None, map(str.strip, text.splitlines())):
            if any(prefix in line for prefix in own):
                yield f"{path}: names the folder that the environment was built in"
            elif line.startswith(("import ", "import\t", "#")):
                continue
            elif not (folder / line).resolve().is_relative_to(root):
                yield f"{path}: adds {line} to Python's path, which is outside"
