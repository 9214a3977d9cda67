"""Conda environments without conda: solve, check, link. The only module that knows py-rattler.

Solving needs a channel. Following a lock does not: packages come by URL and sha256 into the
content-addressed store and are linked from there, with no repodata and no network.
"""

import asyncio
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from rattler import (
    Gateway,
    GenericVirtualPackage,
    PackageName,
    RepoDataRecord,
    SourceConfig,
    Version,
    install,
)
from rattler import solve as rattler_solve
from rattler.exceptions import (
    GatewayError,
    InvalidChannelError,
    InvalidMatchSpecError,
    SolverError,
)
from rattler.package import BuildString

from bundler.request import CONDA_FORGE
from manifests.errors import (
    FilesystemError,
    IntegrityError,
    SourceError,
    TargetError,
    UsageError,
    from_oserror,
)
from manifests.lock import CondaPackage, Target
from manifests.names import public_url
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.index import WAYS_OUT
from wheelhouse.sources import local_path
from wheelhouse.store import Progress, Store, silent

#: The channel that is made from this machine's interpreter; see bundler.hostchannel.
HOST = "host"

T = TypeVar("T")
#: Loops of interrupted work, which have to outlive the threads that call into them.
_INTERRUPTED: list[asyncio.AbstractEventLoop] = []
#: The oldest kernel that RHEL 8 and its kin run; conda-forge's packages ask for less.
_LINUX = "4.18"
_WAYS_OUT = (
    "name a mirror that can be reached with --channel URL, "
    "or make one from this machine's Python with --channel host"
)


#: How Rust words ENOSPC and EDQUOT.
_FULL = re.compile(r"No space left on device|Disk quota exceeded")


@dataclass(frozen=True)
class Channel:
    """Where packages come from, and the name of it that may be kept."""

    name: str  # a URL without secrets, "host", or "file" for a folder of this machine
    url: str = field(repr=False)  # as used; may hold a token or a password

    def kept(self, subdir: str, filename: str) -> str:
        """A package's URL for the lock: "https://…", "host:SUBDIR/FILE" or "file:SUBDIR/FILE"."""
        separator = "/" if "://" in self.name else ":"
        return f"{self.name}{separator}{subdir}/{filename}"

    def location(self, package: CondaPackage) -> str:
        """Where the package is to be had: a URL, or a path for a folder of this machine."""
        name = filename(package)
        folder = local_path(self.url)
        base = str(folder) if folder else self.url
        return f"{base}/{package.subdir}/{name}"


def channel(value: str, make_host: Callable[[], Path]) -> Channel:
    """What `--channel VALUE` means; `make_host` builds the channel `host` when that is asked for.

    Raises UsageError where the value is neither `host` nor a URL.
    """
    if value == HOST:
        return Channel(HOST, make_host().absolute().as_uri())
    if value.startswith("file://"):
        return Channel("file", value.rstrip("/"))
    if not value.startswith(("https://", "http://")):
        raise UsageError(
            f"--channel {value!r} is not a URL",
            mend=f"give https://…, file:///…, or host; without --channel it is {CONDA_FORGE}",
        )
    return Channel(public_url(value).rstrip("/"), value.rstrip("/"))


def solve(
    source: Channel, specs: Sequence[str], target: Target, cache: Path, *, offline: bool = False
) -> tuple[CondaPackage, ...]:
    """The packages that satisfy `specs` on the target by name, pinned by the index's sha256.

    `cache` keeps repodata; `offline` takes it from there alone. The target's virtual packages
    decide, not the builder's.

    Raises SourceError where the channel can't be reached or lacks a package, TargetError where the
    target's glibc is too old, UsageError for a spec or URL that can't be read.
    """
    try:
        with _index_cache(source, cache) as kept:
            records = _run(_solve(source, specs, target, kept, offline))
    except GatewayError as error:
        raise _unreachable(source, error, offline) from None
    except SolverError as error:
        raise _unsatisfiable(source, specs, target, error) from None
    except (InvalidMatchSpecError, InvalidChannelError) as error:
        raise UsageError(_line(error)) from None
    return tuple(sorted((_locked(source, record) for record in records), key=lambda p: p.name))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but an interrupted loop stays open.

    py-rattler's own threads go on for a moment and call into it: closed, it would answer with a
    traceback on the terminal.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    try:
        result = loop.run_until_complete(task)
    except KeyboardInterrupt:
        _INTERRUPTED.append(loop)
        task.cancel()
        with suppress(Exception, asyncio.CancelledError):
            loop.run_until_complete(task)
        raise
    except BaseException:
        loop.close()
        raise
    loop.close()
    return result


@contextmanager
def _index_cache(source: Channel, cache: Path) -> Iterator[Path]:
    """Where py-rattler keeps repodata. It notes the URL there: one with a secret is forgotten."""
    if source.url == public_url(source.url).rstrip("/"):
        yield cache
    else:
        with TemporaryDirectory(prefix="repodata-") as folder:
            yield Path(folder)


async def _solve(
    source: Channel, specs: Sequence[str], target: Target, cache: Path, offline: bool
) -> list[RepoDataRecord]:
    cached_only = offline and local_path(source.url) is None
    config = SourceConfig(cache_action="force-cache-only" if cached_only else "cache-or-fetch")
    gateway = Gateway(cache_dir=cache, default_config=config)
    return await rattler_solve(
        [source.url],
        specs,
        platforms=["linux-64", "noarch"],
        virtual_packages=virtual_packages(target),
        gateway=gateway,
    )


def virtual_packages(target: Target) -> list[GenericVirtualPackage]:
    """What the isolated host provides, in conda's terms."""
    provided = (
        ("__unix", "0", "0"),
        ("__linux", _LINUX, "0"),
        ("__glibc", target.glibc, "0"),
        ("__archspec", "1", target.arch),
    )
    return [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in provided
    ]


def _locked(source: Channel, record: RepoDataRecord) -> CondaPackage:
    if record.sha256 is None:
        raise SourceError(
            f"{record.file_name}: the channel {source.name} publishes no sha256 for it",
            mend="use a channel whose index has sha256 digests",
        )
    return CondaPackage(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        subdir=record.subdir,
        url=source.kept(record.subdir, record.file_name),
        sha256=record.sha256.hex(),
        size=record.size or 0,
    )


def fetch(
    packages: Iterable[CondaPackage],
    source: Channel,
    fetcher: Fetcher,
    progress: Progress = silent,
) -> None:
    """Have every package in the fetcher's store, checked against the lock, file:// included.

    `progress` takes bytes. Raises SourceError, IntegrityError or FilesystemError; see Fetcher.
    """
    wanted = [
        Wanted(
            name=filename(package),
            url=source.location(package),
            sha256=package.sha256,
            size=package.size,
        )
        for package in packages
    ]
    try:
        fetcher.fetch(wanted, progress)
    except FilesystemError:
        folder = local_path(source.url)
        if folder is None or folder.is_dir():
            raise
        raise SourceError(
            f"the conda channel {source.url} can't be reached",
            why="there is no such folder",
            mend=_WAYS_OUT,
        ) from None
    except SourceError as error:  # whose ways out are those of an index
        error.mend = error.mend.replace(WAYS_OUT, _WAYS_OUT)
        raise


def filename(package: CondaPackage) -> str:
    """The name of a package's file."""
    return package.url.rpartition("/")[2]


def create(packages: Sequence[CondaPackage], prefix: Path, store: Store, cache: Path) -> None:
    """Link the packages out of the store into a new folder `prefix`.

    `cache` receives the unpacked packages, which packing needs too: keep it until then. Every
    archive is hashed again before it is unpacked. conda-meta names the lock's URLs.

    Raises UsageError where `prefix` holds anything, IntegrityError where a stored package went bad,
    FilesystemError where files can't be written.
    """
    if prefix.exists() and any(prefix.iterdir()):
        raise UsageError(f"{prefix} is not empty", mend="remove it, or choose another folder")
    archives = cache / "archives"
    try:
        archives.mkdir(parents=True, exist_ok=True)
        paths = [_named(package, store, archives) for package in packages]
        _run(_install(paths, prefix, cache / "packages"))
        _name_origins(packages, prefix)
    except OSError as error:
        raise from_oserror(error, "creating the conda environment") from error


def remove(packages: Iterable[CondaPackage], prefix: Path) -> None:
    """Take packages out of a prefix again: their files, records and the folders left empty.

    Raises FilesystemError.
    """
    try:
        for package in packages:
            record = prefix / "conda-meta" / f"{_stem(package)}.json"
            for path in (*json.loads(record.read_bytes())["files"], record):
                (prefix / path).unlink(missing_ok=True)
        for folder, _, _ in os.walk(prefix, topdown=False):
            if not any(Path(folder).iterdir()):
                Path(folder).rmdir()
    except OSError as error:
        raise from_oserror(error, "taking the conda packages out again") from error


def _stem(package: CondaPackage) -> str:
    return filename(package).removesuffix(".conda").removesuffix(".tar.bz2")


def _named(package: CondaPackage, store: Store, folder: Path) -> Path:
    """A stored package under its own name, by which its format is recognised."""
    named = folder / filename(package)
    stored = store.verified(package.sha256, named.name)
    named.unlink(missing_ok=True)
    # Not a symlink: py-rattler resolves those, and the store's names tell it no format.
    try:
        named.hardlink_to(stored)
    except OSError:  # another file system
        shutil.copyfile(stored, named)
    return named


async def _install(archives: Sequence[Path], prefix: Path, cache: Path) -> None:
    try:
        records = [await RepoDataRecord.from_package_archive(archive) for archive in archives]
        await install(
            records, prefix, cache_dir=cache, execute_link_scripts=False, show_progress=False
        )
    except Exception as error:  # py-rattler's exceptions have no common base
        if full := _FULL.search(str(error)):
            raise OSError(errno.ENOSPC, full[0], str(prefix)) from error
        raise IntegrityError(
            f"the conda packages can't be linked: {_line(error)}",
            mend="run the command again with an empty cache folder",
        ) from error


def _name_origins(packages: Sequence[CondaPackage], prefix: Path) -> None:
    """Put the lock's URLs where py-rattler recorded paths of this machine."""
    for package in packages:
        name = filename(package)
        path = prefix / "conda-meta" / f"{_stem(package)}.json"
        record = json.loads(path.read_text("utf-8"))
        record |= {
            "url": package.url,
            "channel": package.url.removesuffix(f"{package.subdir}/{name}").rstrip("/:"),
            "fn": name,
            "sha256": package.sha256,
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, indent=1, sort_keys=True), "utf-8")
        temporary.replace(path)


def _unreachable(source: Channel, error: Exception, offline: bool) -> SourceError:
    if offline:
        return SourceError(
            f"--offline, and the index of the channel {source.name} is not in the cache",
            mend="run once without --offline, or follow a lock",
        )
    where = source.url if source.name == "file" else source.name
    mend = _WAYS_OUT
    if "certificate" in str(error):
        mend = "name your authority's file in SSL_CERT_FILE, or " + mend
    causes = [line.removeprefix("Caused by: ") for line in str(error).splitlines()]
    return SourceError(
        f"the conda channel {where} can't be reached",
        why=causes[-1] if len(causes) > 1 else _line(error),
        mend=mend,
    )


def _unsatisfiable(
    source: Channel, specs: Sequence[str], target: Target, error: Exception
) -> SourceError | TargetError:
    lines = [line.strip(" │├└─") for line in str(error).splitlines() if line.strip(" │├└─")]
    text = " ".join(lines).removeprefix("Cannot solve the request because of: ")
    floors = re.findall(r"__glibc >=([\d.]+)", text)
    if floors:
        return TargetError(
            f"the packages of the channel {source.name} need glibc {max(floors, key=_numbers)}, "
            f"the target has {target.glibc}",
            why=text,
            mend="choose a channel with older builds (a host channel needs this machine's glibc), "
            "or make the bundle on a machine with an older glibc",
        )
    return SourceError(
        f"the channel {source.name} has no packages for {', '.join(specs)}",
        why=text,
        mend="choose another --python, or another --channel that has them",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _line(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]
