"""Records of vulnerabilities as their publishers distribute them: a zip file or a folder.

OSV gives each ecosystem as a zip of JSON files (https://google.github.io/osv.dev/data/), PyPA and
GitHub a repository of YAML or JSON files (https://github.com/pypa/advisory-database,
https://github.com/github/advisory-database). The one place that knows PyYAML.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from manifests.digests import CHUNK
from manifests.errors import UsageError, from_oserror

#: Bytes of one record. The largest of PyPI's have some hundred thousand.
_LIMIT = 16 << 20
_SUFFIXES = {".json", ".yaml", ".yml"}
#: The folder of PyPA's repository that has records; what lies elsewhere in it has none.
_RECORDS = "vulns"
#: Every scalar stays a text: `fixed: 1.10` is a version, and no number. In C, where that is built.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MEND = (
    "name the zip file or the folder that the publisher distributes, such as OSV's all.zip of PyPI"
)


@dataclass(frozen=True)
class Dump:
    """A dump. `records` can be gone through once, and gives file names and what is in them."""

    name: str  # of the file or the folder
    sha256: str  # of the file; of a folder's records the digest of what sha256sum prints of them
    records: Iterator[tuple[str, Any]]


@contextmanager
def opened(path: Path) -> Iterator[Dump]:
    """A dump.

    Raises UsageError where it is missing, damaged, or has no records; FilesystemError where it
    can't be read.
    """
    try:
        if path.is_dir():
            yield _folder(path)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield _zip(path, archive)
        else:
            missing = "" if path.exists() else "no such file or folder"
            raise UsageError(f"{path}: {missing or 'not a zip file'}", mend=_MEND)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise UsageError(f"{path}: damaged ({error})", mend="fetch it again") from None
    except OSError as error:
        raise from_oserror(error, "reading the dump", error.filename or path) from error


def _folder(path: Path) -> Dump:
    found = {one.relative_to(path).as_posix(): one for one in path.rglob("*") if one.is_file()}
    names = _chosen(found, str(path))
    listing = hashlib.sha256()
    for name in names:
        digest = hashlib.sha256(found[name].read_bytes()).hexdigest()
        listing.update(f"{digest}  {name}\n".encode())
    sizes = {name: found[name].stat().st_size for name in names}
    records = _parsed(names, sizes, lambda name: found[name].read_bytes())
    return Dump(path.resolve().name, listing.hexdigest(), records)


def _zip(path: Path, archive: zipfile.ZipFile) -> Dump:
    sizes = {one.filename: one.file_size for one in archive.infolist() if not one.is_dir()}
    names = _chosen(sizes, str(path))
    with path.open("rb") as handle:
        digest = hashlib.sha256()
        while data := handle.read(CHUNK):
            digest.update(data)
    return Dump(path.name, digest.hexdigest(), _parsed(names, sizes, archive.read))


def _chosen(names: Any, where: str) -> list[str]:
    """The names of records, sorted."""
    paths = [PurePosixPath(name) for name in names]
    likely = [
        path
        for path in paths
        if path.suffix in _SUFFIXES and not any(part.startswith(".") for part in path.parts)
    ]
    if not likely:
        raise UsageError(f"{where}: no records in it", mend=_MEND)
    roots = {path.parts[: path.parts.index(_RECORDS)] for path in likely if _has_records(path)}
    return sorted(
        str(path)
        for path in likely
        if _has_records(path) or not any(path.parts[: len(root)] == root for root in roots)
    )


def _has_records(path: PurePosixPath) -> bool:
    return _RECORDS in path.parts[:-1]


def _parsed(
    names: list[str], sizes: dict[str, int], read: Callable[[str], bytes]
) -> Iterator[tuple[str, Any]]:
    for name in names:
        if sizes[name] > _LIMIT:
            raise UsageError(f"{name}: {sizes[name]} bytes are too many for a record", mend=_MEND)
        try:
            text = read(name).decode()
            yield name, json.loads(text) if name.endswith(".json") else _yaml(text)
        except (ValueError, yaml.YAMLError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"{name}: damaged ({reason})", mend="fetch the dump again") from None


def _yaml(text: str) -> Any:
    return yaml.load(text, _LOADER)  # noqa: S506 - it makes texts, lists and tables, nothing else
