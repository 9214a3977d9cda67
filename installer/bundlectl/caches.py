"""Compile caches: kept after a rehearsal, put in place before a start (see manifests.caches).

They are copied, because the server writes into these folders, and nothing that is there already is
replaced. What was placed is remembered in the cache itself, by the digest of the file that it came
from: a later start only looks whether all of it is there.
"""

import contextlib
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from bundlectl import nvidia, planned
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.measured import visible_to
from bundlectl.syncing import sync
from manifests import caches, canonical, gpu, regular, synced, tree
from manifests.bundle import Manifest, Member
from manifests.caches import Caches, File, Key
from manifests.console import size
from manifests.digests import hash_file
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.names import check_path

#: Below the cache: a record for each file of caches that was placed, and what is on its way.
_PLACED, _DRAFT = "carried", ".carried.new"
#: Bytes that are left to the server that is about to start.
_RESERVE = 256 << 20
_LEVEL = 9  # of zstd: 120 MB of cubins and pickles in two seconds
_COMPILES = "the first start compiles (1-3 minutes)"


@dataclass(frozen=True)
class Kept:
    """Caches that were written to a file."""

    key: Key
    files: int
    size: int  # bytes of the file
    sha256: str  # of the file


def key_of(manifest: Manifest, settings: ServeConfig, plan: planned.Planned) -> Key:
    """What a server's caches are for: this machine, this release, this model, these arguments."""
    if manifest.target.gpus == (gpu.CPU,):
        device, capability = _processor(), ""
    else:
        seen = nvidia.alike(nvidia.gpus(visible_to(settings)))
        device, capability = (seen[0].name, seen[0].capability) if seen else ("", "")
    return Key(
        device=device,
        capability=capability,
        glibc=os.confstr("CS_GNU_LIBC_VERSION").split()[-1],  # type: ignore[union-attr] # is glibc
        stack=manifest.stack,
        environment=caches.environment_of(manifest),
        model=hash_file(plan.folder / "config.json"),
        arguments=caches.shaping(plan.words),
    )


def keep(layout: Layout, key: Key, target: Path, secrets: Sequence[str]) -> Kept:
    """Write the installation's caches to a file, of a server that has ended.

    A file that holds one of the `secrets` stays behind. The same files give the same bytes.
    Raises UsageError where there is nothing to keep, FilesystemError.
    """
    place = str(layout.cache)
    words = [secret.encode() for secret in secrets if secret]
    draft = target.with_name(f".{target.name}.new")
    try:
        found = list(_files(layout.cache, place, words))
        if not found:
            raise UsageError(
                f"{layout.cache}: the server has compiled nothing",
                mend="a server on a processor compiles nothing where --enforce-eager is set",
            )
        header = Caches(caches.SCHEMA, key, str(layout.cache), tuple(found))
        draft.unlink(missing_ok=True)
        with draft.open("xb") as out:
            with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(out, closefd=False) as stream:
                stream.write(header.dump())
                for file in found:
                    again, data = caches.give(
                        file.path, (layout.cache / file.path).read_bytes(), place
                    )
                    if again != file:
                        raise UsageError(
                            f"{layout.cache / file.path}: something is writing there",
                            mend="stop the server (bundlectl stop), then the same command again",
                        )
                    stream.write(data)
            out.flush()
            os.fsync(out.fileno())
        digest, length = hash_file(draft), draft.stat().st_size
        draft.replace(target)
        sync(target.absolute().parent)
    except OSError as error:
        raise from_oserror(error, "keeping the compile caches", target) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return Kept(key, len(found), length, digest)


def place(
    layout: Layout,
    release: str,
    manifest: Manifest,
    settings: ServeConfig,
    plan: planned.Planned,
) -> tuple[str, ...]:
    """Put a release's caches where its server looks, if they fit; gives a sentence about that.

    Nothing is said where the release carries none. What can't be used is never an obstacle to a
    start, which compiles then.
    """
    carried = caches.carried(manifest)
    try:
        _forget(layout, carried)
        if not carried:
            return ()
        here = key_of(manifest, settings, plan)
        why: list[str] = []
        for member in carried:
            told, problem = _place_one(
                layout, layout.release(release) / member.path, member.sha256, here
            )
            if told:
                return (told,)
            why.append(problem)
    except OSError as error:
        why = [f"{error.filename or layout.cache}: {error.strerror}"]
    return (f"carried compile caches are not used: {min(why, key=len)}; {_COMPILES}",)


def _place_one(layout: Layout, source: Path, digest: str, here: Key) -> tuple[str, str]:
    """What to say where a file of caches is used, or else why it is not."""
    try:
        with _unpacked(source) as stream:
            header = caches.read(stream, source.name)
            if odd := caches.differences(header.key, here):
                return "", "; ".join(odd)
            usable = header.usable(str(layout.cache))
            record = layout.cache / _PLACED / f"{digest}.json"
            there = all(os.path.lexists(layout.cache / one.path) for one in usable)
            if not (there and record.exists()):
                wanted, free = sum(one.size for one in usable), shutil.disk_usage(layout.cache).free
                if free < wanted + _RESERVE:
                    return "", f"{layout.cache} has {size(free)} free, they take {size(wanted)}"
                if hash_file(source) != digest:
                    raise IntegrityError(f"{source.name} is damaged (see: bundlectl audit)")
                _unpack(layout, stream, header, usable)
                record.parent.mkdir(mode=0o700, exist_ok=True)
                names = [one.path for one in usable]
                synced.replace(record, canonical.sealed(names), 0o600)
    except IntegrityError as error:
        return "", error.what
    except (zstandard.ZstdError, EOFError):
        return "", f"{source.name} is damaged (see: bundlectl audit)"
    told = f"compile caches: {len(usable)} files carried for {here.device}, used"
    if rest := len(header.files) - len(usable):
        told += f"; {rest} more only fit below {header.place}"
    return told, ""


def _unpack(layout: Layout, stream: BinaryIO, header: Caches, usable: Sequence[File]) -> None:
    """Write the files beside their places first, so that each appears whole."""
    draft, wanted = layout.cache / _DRAFT, frozenset(usable)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(draft)
    try:
        for file in header.files:
            data = caches.take(stream, file, str(layout.cache))
            if file in wanted:
                _write(draft / file.path, data)
        sync(layout.cache)
        for file in usable:
            path = layout.cache / file.path
            _make(path.parent)
            if not os.path.lexists(path):
                (draft / file.path).rename(path)
    finally:  # on a full disk, too: the server has to write there next
        shutil.rmtree(draft, ignore_errors=True)
    sync(layout.cache)


def _write(path: Path, data: bytes) -> None:
    _make(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(data)


def _make(folder: Path) -> None:
    """Make a folder for its owner alone, and those above it; mkdir's `parents` has no mode."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(0o700)


def _forget(layout: Layout, carried: Sequence[Member]) -> None:
    """Remove what was placed from files that no installed release carries any more."""
    records = sorted((layout.cache / _PLACED).glob("*.json"))
    known = {one.sha256 for one in carried}
    if all(record.stem in known for record in records):
        return
    there = {path.name.split(".")[0] for path in layout.releases.glob(f"*/{caches.FOLDER}*")}
    gone = [one for one in records if one.stem not in known and one.stem[:12] not in there]
    left = {name for record in records if record not in gone for name in _names(record)}
    for record in gone:
        for name in _names(record):
            if name not in left:
                (layout.cache / name).unlink(missing_ok=True)
        record.unlink()


def _names(record: Path) -> list[str]:
    """What a record lists, of ours or nothing."""
    try:
        names = canonical.unsealed(regular.read(record, caches.LONGEST_HEADER))
        return [check_path(str(name)) for name in names]
    except (OSError, ValueError, IntegrityError):
        return []


def _files(cache: Path, place: str, secrets: Sequence[bytes]) -> Iterator[File]:
    """Everything that is carried, in order of the paths."""
    paths = []
    for area in caches.AREAS:
        if (cache / area).is_dir():
            below = tree.walk(cache / area)
            paths += [f"{area}/{path}" for path, one in below if one.is_file(follow_symlinks=False)]
    for path in sorted(paths):
        if caches.travels(path) and _can_be_listed(path):
            data = (cache / path).read_bytes()
            if not any(secret in data for secret in secrets):
                yield caches.give(path, data, place)[0]


def _can_be_listed(path: str) -> bool:
    with contextlib.suppress(IntegrityError):
        return bool(check_path(path))
    return False


@contextlib.contextmanager
def _unpacked(source: Path) -> Iterator[BinaryIO]:
    with source.open("rb") as raw:
        unpacker = zstandard.ZstdDecompressor().stream_reader(raw)
        with io.BufferedReader(cast("io.RawIOBase", unpacker), 1 << 20) as stream:
            yield stream


def _processor() -> str:
    """The processor's name, /proc/cpuinfo; code for it may use all that it can do."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""
