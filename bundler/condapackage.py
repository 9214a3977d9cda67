"""Write one `.conda` package from a staged folder; the same bytes for the same files.

conda-package-handling stamps the current time into the archive, so the format is written here.
It is a ZIP of stored members: metadata.json, pkg-STEM.tar.zst, info-STEM.tar.zst
(https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html).
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import zstandard

from manifests import digests, tree
from manifests.canonical import dumps

#: What conda-build puts in place of the prefix; at 255 bytes the longest prefix that can follow.
PLACEHOLDER = ("/opt/conda-bld/host_env_" + "placehold_" * 30)[:255]
#: 1980-01-01T00:00:00Z, the earliest time that a ZIP can hold; seconds since the epoch.
EPOCH = 315532800
#: Repodata's unit is milliseconds.
_TIMESTAMP = EPOCH * 1000
_LEVEL = 3


@dataclass(frozen=True)
class Recipe:
    """What a package says about itself."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    subdir: str = "linux-64"
    licence: str = "see share/licenses"
    about: Mapping[str, str] | None = None  # further fields of about.json, such as an origin


def write(recipe: Recipe, stage: Path, channel: Path) -> Path:
    """Pack everything below `stage` into CHANNEL/SUBDIR; the new file.

    Files that hold PLACEHOLDER are marked for prefix replacement. The build string is a digest of
    the contents, so that packages of two interpreters never share a file name.

    Raises OSError where a file can't be read or written.
    """
    paths = [_path_record(stage, path) for path in sorted(_paths(stage))]
    content = digests.sha256()
    content.update(dumps(paths))
    build = f"h{content.hexdigest()[:8]}_0"
    stem = f"{recipe.name}-{recipe.version}-{build}"
    info = {
        "about.json": {"license": recipe.licence, **(recipe.about or {})},
        "index.json": _index(recipe, build),
        "paths.json": {"paths": paths, "paths_version": 1},
    }
    target = channel / recipe.subdir / f"{stem}.conda"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as package:
        with _member(package, "metadata.json") as out:
            out.write(b'{"conda_pkg_format_version": 2}')
        with _archive(package, f"pkg-{stem}.tar.zst") as tar:
            for record in paths:
                _add(tar, stage / record["_path"], record["_path"])
        with _archive(package, f"info-{stem}.tar.zst") as tar:
            for name, data in info.items():
                _add_bytes(tar, f"info/{name}", json.dumps(data, sort_keys=True, indent=1).encode())
    return target


def _index(recipe: Recipe, build: str) -> dict[str, Any]:
    index: dict[str, Any] = {
        "name": recipe.name,
        "version": recipe.version,
        "build": build,
        "build_number": 0,
        "depends": list(recipe.depends),
        "subdir": recipe.subdir,
        "timestamp": _TIMESTAMP,
        "license": recipe.licence,
    }
    if recipe.subdir == "noarch":
        index["noarch"] = "generic"
    return index


def _paths(stage: Path) -> Iterator[str]:
    for path, entry in tree.walk(stage):
        if tree.kind_of(entry) != tree.FOLDER:
            yield path


def _path_record(stage: Path, path: str) -> dict[str, Any]:
    source = stage / path
    record: dict[str, Any] = {
        "_path": path,
        "path_type": "softlink" if source.is_symlink() else "hardlink",
        "sha256": digests.hash_file(source),
        "size_in_bytes": source.stat().st_size,
    }
    if not source.is_symlink():
        data = source.read_bytes()
        if PLACEHOLDER.encode() in data:
            record["prefix_placeholder"] = PLACEHOLDER
            record["file_mode"] = "binary" if b"\0" in data else "text"
    return record


def _member(package: zipfile.ZipFile, name: str) -> IO[bytes]:
    # A ZipInfo made by hand has the date 1980-01-01; open() by name alone would take the clock's.
    return package.open(zipfile.ZipInfo(name), "w", force_zip64=True)


@contextmanager
def _archive(package: zipfile.ZipFile, name: str) -> Iterator[tarfile.TarFile]:
    """A zstd-compressed tar as a member of the package."""
    with (
        _member(package, name) as member,
        zstandard.ZstdCompressor(level=_LEVEL).stream_writer(member, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        yield tar


def _add(tar: tarfile.TarFile, source: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    if source.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(source.readlink())
        _add_info(tar, info)
        return
    status = source.stat()
    info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
    with source.open("rb") as handle:
        _add_info(tar, info, handle)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    _add_info(tar, info, io.BytesIO(data))


def _add_info(tar: tarfile.TarFile, info: tarfile.TarInfo, data: BinaryIO | None = None) -> None:
    info.mtime = EPOCH
    tar.addfile(info, data)
