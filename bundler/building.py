"""Build what a lock names: the serving environment and the small runtime, packed.

A packed environment is kept under the digest of what went into it, so that another bundle with
another model, or a run that was interrupted later, does not build it again.
"""

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from bundler import bytecode, conda, guard, kept, layout, pack, packplan, relocate
from bundler.kept import ELF as ELF
from bundler.kept import INDEX as INDEX
from bundler.kept import KERNELS as KERNELS
from bundler.kept import Index as Index
from bundler.kept import Packed as Packed
from bundler.workshop import Workshop
from manifests import bundle, canonical
from manifests.console import Console, Progress
from manifests.digests import HashingWriter, hash_file, sha256, xxh3
from manifests.errors import IntegrityError, from_oserror
from manifests.inventory import Distribution
from manifests.lock import CondaPackage, Wheel
from manifests.records import to_data
from wheelhouse import elf, install, kernels

#: Whose code decides the packed bytes.
_MAKERS = (bytecode, conda, install, pack, packplan, relocate, layout)
#: Packages whose code decides what is kept beside them.
_READERS = ("wheelhouse.kernels", "wheelhouse.elf")


@dataclass(frozen=True)
class Contents:
    """What goes into an environment, and how it is packed."""

    title: str
    member: str  # name in the bundle's archive
    conda: tuple[CondaPackage, ...]
    wheels: tuple[Wheel, ...]
    compression: str
    winning: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ours: bool = False  # bundlectl and manifests go in
    python: tuple[CondaPackage, ...] = ()  # only installs the wheels of an overlay: not packed
    provided: tuple[Distribution, ...] = ()  # of the host's environment, below an overlay


def serving(
    packages: tuple[CondaPackage, ...], wheels: tuple[Wheel, ...], winning: Sequence[str]
) -> Contents:
    """The environment that serves."""
    return Contents(
        "serving environment",
        bundle.ENVIRONMENT_MEMBER,
        packages,
        wheels,
        "zstd",
        winning=tuple(winning),
    )


def runtime(packages: tuple[CondaPackage, ...], wheels: tuple[Wheel, ...]) -> Contents:
    """The small Python that runs bundlectl; gzip, because that is what every host can read."""
    return Contents(
        "runtime",
        bundle.RUNTIME_MEMBER,
        packages,
        wheels,
        "gzip",
        exclude=layout.RUNTIME_EXCLUDE,
        ours=True,
    )


def build(contents: Contents, workshop: Workshop, console: Console) -> Packed:
    """The packed environment, from the cache or built now. Everything it needs is in the store.

    Raises IntegrityError where the guard finds something, FilesystemError where space runs out.
    """
    place = folder(contents, workshop)
    known = kept.recall(place, contents.title, contents.member, workshop, console)
    if known is not None:
        console.say(f"  {contents.title}: built before")
        return known
    with workshop.scratch(contents.member.partition(".")[0]) as scratch:
        prefix = scratch / "prefix"
        with console.stage(f"build the {contents.title}"):
            packages = (*contents.conda, *contents.python)
            conda.create(packages, prefix, workshop.store, scratch / "conda")
            install.install(
                contents.wheels, prefix=prefix, store=workshop.store, scratch=_made(scratch / "pip")
            )
            if contents.ours:
                pack.stage_runtime(prefix)
            check(prefix, scratch, contents.provided)
            conda.remove(contents.python, prefix)
        work = _made(scratch / "packed")
        with console.stage(f"read the libraries of the {contents.title}"):
            inventory, binaries = kernels.scan(prefix), elf.scan(prefix)
        members = packplan.plan(prefix, exclude=contents.exclude, winning=contents.winning)
        if contents.ours:
            members = bytecode.with_bytecode(members, prefix, pack.OURS, scratch / "bytecode")
        archive = work / contents.member
        with console.stage(f"pack the {contents.title}", pack.size(members)) as progress:
            index = _pack(contents, members, archive, progress)
            records = {INDEX: index, KERNELS: inventory, ELF: binaries}
            for name, record in records.items():
                (work / name).write_bytes(canonical.sealed(to_data(record)))
            _publish(work, place)
    path = place / contents.member
    return Packed(index.sha256, index.size, index.entries, path, inventory, binaries)


def folder(contents: Contents, workshop: Workshop) -> Path:
    """Where a packed environment is kept, if it was ever built."""
    return workshop.packed / _key(contents)


def _pack(
    contents: Contents, members: Sequence[packplan.Member], archive: Path, progress: Progress
) -> Index:
    proof, quick = sha256(), xxh3()
    try:
        with archive.open("xb") as handle:
            out = HashingWriter(handle, proof, quick)
            entries = pack.write(
                members, cast(BinaryIO, out), compression=contents.compression, progress=progress
            )
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise from_oserror(error, "packing the environment") from error
    if contents.ours:  # conda-unpack is never run on the runtime: it works anywhere as it is
        entries = tuple(replace(entry, rewrite=None) for entry in entries)
    return Index(proof.hexdigest(), quick.hexdigest(), out.count, entries)


def check(prefix: Path, scratch: Path, provided: Sequence[Distribution] = ()) -> None:
    """Refuse an environment that would not work where it goes.

    Raises IntegrityError with everything that is wrong.
    """
    guard.check(prefix)
    problems = install.check(prefix, _made(scratch / "check"), provided)
    if problems:
        raise IntegrityError(
            "the installed wheels don't fit each other",
            findings=problems,
            mend="report it with the lock: the stack's data has to be corrected",
        )


def _key(contents: Contents) -> str:
    """The digest of everything that decides the packed bytes."""
    code = [Path(str(module.__file__)) for module in _MAKERS]
    code += [path for name in _READERS for path in _files_of(name)]
    if contents.ours:
        code += [path for name in pack.OURS for path in _files_of(name)]
    question = {
        # conda-meta names the URLs, so they decide the bytes too.
        "conda": [[package.url, package.sha256] for package in contents.conda],
        "wheels": [wheel.sha256 for wheel in contents.wheels],
        "python": [package.sha256 for package in contents.python],
        "provided": [[one.name, one.version, one.requires] for one in contents.provided],
        "winning": contents.winning,
        "exclude": contents.exclude,
        "compression": contents.compression,
        "code": [hash_file(path) for path in code],
    }
    return hashlib.sha256(canonical.dumps(question)).hexdigest()[:32]


def _files_of(package: str) -> list[Path]:
    """The files of a package of ours, found without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None  # stage_runtime has copied it
    folder = Path(spec.origin).parent
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return sorted(path for path in found if path.is_file())


def _publish(work: Path, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or place.is_file():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)
        work.rename(place)
    except OSError as error:
        raise from_oserror(error, "keeping the packed environment") from error


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
