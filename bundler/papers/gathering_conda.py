"""Read what a conda package says of itself, out of the package or out of an unpacked tree.

Format: https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html. Licence
texts lie in the package's info/licenses, which is not unpacked into an environment. Where there are
none, as in the channel `host`, those in its payload count: share/licenses/NAME, and Python's own.
"""

import json
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

from bundler.papers import gathering_said
from bundler.papers.gathering_said import Said
from manifests.lock import CondaPackage
from wheelhouse.record import UNSOUND

#: What reading a damaged package raises.
DAMAGE = (*UNSOUND, tarfile.TarError, zstandard.ZstdError)
_INDEX, _TEXTS = "info/index.json", "info/licenses/"
Record = Mapping[str, Any]
_PAYLOAD = re.compile(r"share/licenses/.+|lib/python3[^/]*/LICENSE\.txt")


def in_payload(path: str) -> bool:
    """Whether a file of an environment is a licence text of a conda package."""
    return _PAYLOAD.fullmatch(path) is not None


def of_archive(archive: Path, package: CondaPackage) -> Said:
    """What a package's own file says.

    Raises one of DAMAGE where it can't be read.
    """
    found = _files(archive, package, "info")
    index = _json(found.pop(_INDEX, b""))
    texts = found or _files(archive, package, "pkg")
    return gathering_said.of_conda(
        index, [gathering_said.text(path.removeprefix("info/"), texts[path]) for path in texts]
    )


def _files(archive: Path, package: CondaPackage, part: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with _opened(archive, package, part) as tar:
        for member in tar:
            small = member.isfile() and member.size <= gathering_said.LONGEST
            handle = tar.extractfile(member) if small and _is_wanted(member.name, part) else None
            if handle is not None:
                found[member.name] = handle.read()
    return found


def records(packages: Iterable[CondaPackage], tree: Mapping[str, bytes]) -> dict[str, Record]:
    """What conda-meta says of packages, by their names; of those that it has.

    `tree` has the bytes of files by path.
    """
    paths = {one.name: record_path(one) for one in packages}
    return {name: _json(tree[path]) for name, path in paths.items() if path in tree}


def paths(record: Record) -> list[str]:
    """The files that a package brought."""
    files = record.get("files")
    return [path for path in files if isinstance(path, str)] if isinstance(files, list) else []


def of_record(record: Record, tree: Mapping[str, bytes]) -> Said:
    """What the record of a package in conda-meta says, and the texts of its payload."""
    found = [path for path in paths(record) if in_payload(path) and path in tree]
    return gathering_said.of_conda(record, [gathering_said.text(p, tree[p]) for p in found])


def record_path(package: CondaPackage) -> str:
    """Where an environment keeps a package's record."""
    filename = package.url.rpartition("/")[2]
    return f"conda-meta/{filename.removesuffix('.conda').removesuffix('.tar.bz2')}.json"


def _is_wanted(path: str, part: str) -> bool:
    if part == "pkg":
        return in_payload(path)
    return path == _INDEX or path.startswith(_TEXTS)


@contextmanager
def _opened(archive: Path, package: CondaPackage, part: str) -> Iterator[tarfile.TarFile]:
    """A part of a package of the newer format; of the older one, which has no parts, all."""
    if package.url.endswith(".tar.bz2"):
        with tarfile.open(archive, "r|bz2") as tar:
            yield tar
        return
    with zipfile.ZipFile(archive) as parts:
        (name,) = (n for n in parts.namelist() if n.startswith(f"{part}-") and n.endswith(".zst"))
        with (
            parts.open(name) as packed,
            zstandard.ZstdDecompressor().stream_reader(packed) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            yield tar


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
