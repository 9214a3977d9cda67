"""From a recipe to a wheel in the store: taken from an earlier build, continued, or built now."""

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from manifests.console import size
from manifests.errors import FilesystemError, TargetError, from_oserror
from manifests.lock import COMPUTED, Build, Derived, Target, Wheel
from wheelhouse import remember
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.flashattn import compiling, environment, finished, resources, toolkit, workspace
from wheelhouse.flashattn.architectures import device
from wheelhouse.flashattn.environment import MakePython
from wheelhouse.flashattn.fitting import Needs, glibc_floor, misfits
from wheelhouse.flashattn.isolation import isolated
from wheelhouse.flashattn.recipes import check_cuda
from wheelhouse.flashattn.tables import tables
from wheelhouse.sources import Sources
from wheelhouse.store import Progress, Store, silent


@dataclass(frozen=True)
class Builder:
    """Who builds: what a recipe does not say."""

    root: Path  # folder for workspaces and the list of finished wheels
    store: Store
    sources: Sources
    make_python: MakePython
    offline: bool = False
    machine: resources.Machine = field(default_factory=resources.this_machine)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    toolkits: str = toolkit.USUAL  # where this machine's CUDA compilers would be


@dataclass(frozen=True)
class _Compilers:
    """What will compile: nvcc of the machine, or None for that of the recipe's wheels."""

    nvcc: toolkit.Compiler | None
    found: str  # a sentence
    host: str  # version of g++

    def identity(self, build: Build) -> dict[str, str]:
        """All that decides the code they make."""
        wheels = " ".join(sorted(wheel.sha256 for wheel in build.toolkit))
        return {"nvcc": self.nvcc.version if self.nvcc else wheels, "c++": self.host}


def obtain(
    build: Build,
    target: Target,
    builder: Builder,
    *,
    fetched: Progress = silent,
    compiled: Progress = silent,
) -> Wheel:
    """The wheel of a recipe, checked against the target, in the store.

    `fetched` hears of bytes, `compiled` of translation units (`build.units` in all). A run that
    was interrupted or killed is continued: finished units are not compiled again.

    Raises TargetError where the result would not load on the target (told before the build where
    that can be known), UsageError where this machine can't build, SourceError where something
    can't be had, FilesystemError, IntegrityError.
    """
    check_cuda(build.archs, build.cuda)
    check_glibc(target.glibc)
    compilers = _compilers(build, builder)
    name = finished.key(build, target, compilers.identity(build), compiling.variables(build))
    memory, folder = builder.root / "wheels" / f"{name}.json", builder.root / name
    wheel = finished.recall(memory, builder.store)
    if wheel is not None:
        compiled(build.units)
        _check(build, target, builder.store.path(wheel.sha256), wheel.filename)
        return wheel
    try:
        wheel = _built(build, target, builder, compilers, folder, fetched, compiled)
        remember.keep(memory, wheel)
    except OSError as error:
        raise from_oserror(error, "building flash-attn") from error
    shutil.rmtree(folder, ignore_errors=True)
    return wheel


def check_glibc(wanted: str, here: str = platform.libc_ver()[1]) -> None:
    """Refuse a build that is known not to load on the target before it takes an hour.

    Raises TargetError.
    """
    rule = tables().glibc
    if here and Version(here) >= Version(rule.floor) > Version(wanted):
        raise TargetError(
            f"what is compiled here needs the symbol version GLIBC_{rule.floor} "
            f"({rule.symbol}), the target has glibc {wanted}",
            why=f"this machine has glibc {here}",
            mend="build on a system whose glibc is no newer than the target's (a container of an "
            "older distribution does), or bring a wheel with --flash-attn-wheel",
        )


def _compilers(build: Build, builder: Builder) -> _Compilers:
    nvcc, found = toolkit.on_machine(build.cuda, builder.environment, builder.toolkits)
    if nvcc is None and not build.toolkit:
        raise toolkit.missing(build.cuda, found)
    path = builder.environment.get("PATH", os.defpath)
    return _Compilers(
        nvcc, found, toolkit.check_host_compiler(tables().toolkit(build.cuda), path=path)
    )


def _built(
    build: Build,
    target: Target,
    builder: Builder,
    compilers: _Compilers,
    folder: Path,
    fetched: Progress,
    compiled: Progress,
) -> Wheel:
    jobs = resources.jobs(builder.machine, resources.wish(builder.environment))
    isolated()
    _check_disk(builder.root, folder)
    _fetch(build, builder, fetched)
    with workspace.opened(folder) as space:
        made = environment.make(build, space, builder.store, builder.make_python)
        workspace.lay_source(build, builder.store, space)
        nvcc = compilers.nvcc or toolkit.of_wheels(made.site, build.cuda)
        if not space.cuda.is_dir():
            toolkit.lay_out(space.cuda, nvcc, made.site)
        result = compiling.build_wheel(
            build,
            space,
            python=made.python,
            jobs=jobs,
            environment=builder.environment,
            progress=compiled,
        )
        _check(build, target, result.wheel, result.wheel.name, made.site / "torch/lib")
        floor = glibc_floor(result.wheel)
        with result.wheel.open("rb", buffering=0) as handle:
            digest = builder.store.adopt(handle)
        how = f"nvcc {nvcc.release} and g++ {compilers.host}"
        return _described(build, result.wheel, digest, (*_changes(build, how), _floor(floor)))


def _check_disk(root: Path, folder: Path) -> None:
    """Only before a build starts: one that is continued has most of its files already."""
    root.mkdir(parents=True, exist_ok=True)
    free, needed = shutil.disk_usage(root).free, tables().cost.disk
    if not folder.exists() and free < needed:
        raise FilesystemError(
            f"{root}: {size(free)} are free, a build of flash-attn takes about {size(needed)}",
            mend="free some space, or choose another --cache",
        )


def _fetch(build: Build, builder: Builder, progress: Progress) -> None:

    wanted = [Wanted(build.filename, build.url, build.sha256, build.size, project=build.name)]
    wanted += [
        Wanted(wheel.filename, wheel.url, wheel.sha256, wheel.size, project=wheel.name)
        for wheel in (*build.environment, *build.toolkit)
    ]
    Fetcher(builder.sources, builder.store, offline=builder.offline).fetch(wanted, progress)


def _check(
    build: Build, target: Target, wheel: Path, filename: str, torch: Path | None = None
) -> None:
    """Judge a built wheel as any other: switches are what was asked, binaries what was got."""
    found = misfits(
        wheel,
        filename,
        Needs(
            version=build.version,
            python=target.python,
            arch=target.arch,
            glibc=target.glibc,
            gpus=tuple(dict.fromkeys((*map(device, build.archs), *target.gpus))),
            torch=build.torch,
            cuda=build.cuda,
            torch_place=torch,
        ),
    )
    if found:
        raise TargetError(
            f"{filename}, built here, does not fit the target",
            findings=found,
            mend="build on a system whose glibc is no newer than the target's, "
            "or bring a wheel with --flash-attn-wheel",
        )


def _changes(build: Build, how: str) -> tuple[str, ...]:
    code = ", ".join(map(device, build.archs))
    return (
        f"built from source for {code} with {how}, against {_torch(build)}",
        *(
            f"{patch.path}: {patch.old!r} became {patch.new!r}, because: {patch.reason}"
            for patch in build.patches
        ),
    )


def _torch(build: Build) -> str:
    """The very torch: an extension that was built against another one dies at its import."""
    digests = [wheel.sha256 for wheel in build.environment if wheel.name == "torch"]
    return f"torch {build.torch} (CUDA {build.cuda}, sha256 {', '.join(digests)})"


def _floor(glibc: str) -> str:
    return f"its binaries ask for glibc {glibc}" if glibc else "its binaries ask for no glibc"


def _described(build: Build, wheel: Path, digest: str, changes: tuple[str, ...]) -> Wheel:
    return Wheel(
        name=build.name,
        version=f"{build.version}+{build.label}",
        filename=wheel.name,
        url=f"derived:{wheel.name}",
        sha256=digest,
        digest_from=COMPUTED,
        derived=Derived(
            origin=build.filename,
            url=build.url,
            sha256=build.sha256,
            digest_from=build.digest_from,
            changes=changes,
            size=build.size,
        ),
        size=wheel.stat().st_size,
    )
