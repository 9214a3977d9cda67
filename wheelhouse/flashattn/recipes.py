"""The recipe of a build, as it stands in a lock: everything pinned, nothing built."""

import tarfile
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from manifests.digests import sha256
from manifests.errors import IntegrityError, SourceError, TargetError, UsageError
from manifests.lock import COMPUTED, PUBLISHED, Build, Patch, Target, Wheel
from wheelhouse.described import computed
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.flashattn.architectures import archs, device
from wheelhouse.flashattn.fitting import minor
from wheelhouse.flashattn.tables import Change, tables
from wheelhouse.flashattn.workspace import replaced
from wheelhouse.index import Index, Link
from wheelhouse.lockwheels import lock_requirements
from wheelhouse.sources import Sources
from wheelhouse.store import Store

NAME = "flash-attn"
#: What its METADATA requires beside torch, and no stack has to have.
_REQUIRES = "einops"


def recipe(
    version: str,
    target: Target,
    wheels: Sequence[Wheel],
    *,
    cuda: str,
    date: str,
    python: Path,
    sources: Sources,
    store: Store,
    scratch: Path,
    offline: bool = False,
) -> Build:
    """How flash-attn is built for a target, beside the wheels of a lock.

    `wheels` are the serving environment's, `cuda` the release of CUDA that its torch was built
    with, `date` the stack's resolution date, `python` an interpreter of the target's Python. The
    source archive is fetched; compilers and tools are only named.

    Raises TargetError where a GPU can't be served, UsageError for unknown releases, SourceError
    where something can't be had, IntegrityError where a patch does not apply.
    """
    release = tables().release(version)
    value, _ = archs(target.gpus)
    chosen = tuple(value.split(";"))
    check_cuda(chosen, cuda)
    locked = {wheel.name: wheel for wheel in wheels}
    torch = _torch(locked)
    if _REQUIRES not in locked:
        raise UsageError(
            f"flash-attn requires {_REQUIRES}, and the lock has none",
            mend=f"add {_REQUIRES} to the requirements of the stack's flavour",
        )

    def closure(*requirements: str, into: str) -> tuple[Wheel, ...]:
        found = lock_requirements(
            (f"torch==={torch.version}", *tables().tools.requirements, *requirements),
            date=date,
            python=python,
            target=target,
            sources=sources,
            store=store,
            scratch=_made(scratch / into),
            offline=offline,
        )
        # What serves is what is built against, also where the newest would be another.
        return tuple(locked.get(wheel.name, wheel) for wheel in found)

    environment = closure(into="environment")
    compilers = tables().toolkit(cuda).requirements
    everything = closure(*compilers, into="toolkit") if compilers else ()
    link = _source(version, sources)
    digest = link.sha256 or computed(link)
    url = f"file:{link.filename}" if link.local else link.url
    wanted = Wanted(link.filename, url, digest, link.size, project=NAME)
    Fetcher(sources, store, offline=offline).fetch([wanted])
    return Build(
        name=NAME,
        version=version,
        label=label(chosen, torch.version, cuda),
        filename=link.filename,
        url=url,
        sha256=digest,
        archs=chosen,
        units=release.units,
        torch=torch.version,
        cuda=cuda,
        environment=environment,
        toolkit=tuple(wheel for wheel in everything if wheel not in environment),
        patches=_patches(release.patches, torch.version, store.verified(digest, link.filename)),
        digest_from=PUBLISHED if link.sha256 else COMPUTED,
        size=link.size,
    )


def label(archs: Sequence[str], torch: str, cuda: str) -> str:
    """The local version of a build, normalised (PEP 440): "cu128torch2.10cxx11abitrue.sm80".

    The first part is as upstream's own wheels have it; those do not say their architectures.
    """
    built = f"cu{cuda.replace('.', '')}torch{minor(torch)}cxx11abitrue"
    return ".".join((built, *(device(arch).replace("_", "") for arch in archs)))


def check_cuda(archs: Sequence[str], cuda: str) -> None:
    """Refuse architectures that this release of CUDA can't make: setup.py drops them silently.

    Raises TargetError.
    """
    for arch in tables().archs:
        if arch.value in archs and Version(cuda) < Version(arch.cuda):
            raise TargetError(
                f"CUDA {cuda}, which torch was built with, makes no code for {device(arch.value)}",
                why=f"it takes {arch.cuda} or newer",
                mend="choose a newer --stack for this GPU",
            )


def _torch(locked: dict[str, Wheel]) -> Wheel:
    torch = locked.get("torch")
    if torch is None:
        raise UsageError("the lock has no torch, which flash-attn is built against")
    since = tables().abi.since
    if Version(torch.version) < Version(since):
        raise UsageError(
            f"torch {torch.version} has the old C++ ABI, flash-attn is built from {since} on",
            mend="choose a newer --stack, or bring a wheel with --flash-attn-wheel",
        )
    return torch


def _source(version: str, sources: Sources) -> Link:
    wanted = {f"flash_attn-{version}.tar.gz", f"{NAME}-{version}.tar.gz"}
    found = [link for link in Index(sources).files(NAME) if link.filename in wanted]
    if not found:
        raise SourceError(
            f"no source offers flash-attn {version} as a source archive",
            mend="name an index or a folder that has it (--index-url, --find-links)",
        )
    published = {link.sha256 for link in found if link.sha256}
    if len(published) > 1:
        raise IntegrityError(
            f"{found[0].filename}: two sources have different bytes under this name",
            findings=[f"{link.sha256}  {link.url}" for link in found],
            mend="remove the wrong one, or name only one of the sources",
        )
    return next((link for link in found if link.sha256), found[0])


def _patches(changes: Sequence[Change], torch: str, archive: Path) -> tuple[Patch, ...]:
    """The changes that this torch needs, with the digests of the files after them."""
    applying = [change for change in changes if Version(torch) >= Version(change.torch)]
    patches = []
    with tarfile.open(archive) as tar:
        for change in applying:
            top = tar.getnames()[0].partition("/")[0]
            member = tar.extractfile(f"{top}/{change.path}")
            if member is None:
                raise IntegrityError(f"{archive.name}: {change.path} is not a file")
            hasher = sha256()
            hasher.update(replaced(member.read(), change.old, change.new, change.path))
            patches.append(
                Patch(change.path, change.old, change.new, change.reason, hasher.hexdigest())
            )
    return tuple(patches)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
