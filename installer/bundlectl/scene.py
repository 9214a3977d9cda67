"""What doctor's probes look at: this host and the installation on it. Read once, not judged."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bundlectl import config, host, install, models, readiness, sight
from bundlectl.checks import Needs
from bundlectl.host import FileSystem, Host
from bundlectl.host.reading import text
from bundlectl.layout import Layout
from bundlectl.process import KEEPER, Supervisor
from manifests import placement
from manifests.errors import BundleError
from manifests.overlay import Base

_SYSTEM_PATH = "/usr/local/cuda/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN = 3  # missing files that are named
_TEMPORARY = Path("/tmp")  # noqa: S108 - looked at, not used


@dataclass(frozen=True)
class Installation:
    """What is looked at of an installed release; the defaults are those of a sound one."""

    cuda_majors: tuple[str, ...] = ()  # of the CUDA run-time libraries in the environment
    python_header: bool = True
    numa_library: bool = True
    moved: str = ""  # where the launcher believes the prefix to be, if that is elsewhere
    cache_writable: bool = True
    incomplete: str = ""  # what is missing of the model that is served


@dataclass(frozen=True)
class Scene:
    """A host, what a release asks of it, and what there is of that release."""

    host: Host
    needs: Needs | None = None  # None where nothing is installed
    installed: Installation | None = None
    unfinished: bool = False  # an installation was begun and is not complete
    damage: str = ""  # why nothing can be said of what is installed
    ignored: frozenset[str] = frozenset()  # preflight's checks, at the installation
    running: bool = False  # a server of ours, which holds memory and GPU itself
    held: bool = False  # the port, by a front of ours
    temporary: FileSystem | None = None
    tools: frozenset[str] = field(default_factory=frozenset)  # programs that a server finds
    default_route: bool = True


def gather(layout: Layout) -> Scene:
    """Look at this host and, where there is one, at the installation. Never fails for its sake."""
    # A release whose first start failed is not in service.
    release = layout.current_release() or _latest(layout)
    settings, needs, installed, damage = config.ServeConfig(), None, None, ""
    ignored: frozenset[str] = frozenset()
    base = None
    environment = layout.environment(release) if release else None
    try:
        settings = config.load(layout.config_file) if environment else settings
        if environment is not None:
            manifest, _ = placement.load_manifest(layout.prefix, release)
            model = readiness.to_serve(layout, release, manifest)
            base = readiness.put_on(layout, release)
            needs = replace(readiness.needs_of(manifest, settings, model), base=base)
            ignored = readiness.ignored(layout, release)
    except BundleError as error:
        damage = error.what
    if environment is not None:
        installed = _installation(layout, release, environment, base)
    # Of a server that this account can't see, memory and port are not held against the host.
    unseen = bool(sight.hidden(layout))
    return Scene(
        host=readiness.probe(layout, settings, gpus=needs is None or needs.on_gpu, base=base),
        needs=needs,
        installed=installed,
        unfinished=any(layout.journal.glob("*.txt")),
        damage=damage,
        ignored=ignored,
        running=unseen or Supervisor(layout).status().running,
        held=unseen or Supervisor(layout, KEEPER).status().running,
        temporary=host.file_system(_TEMPORARY) if _TEMPORARY.is_dir() else None,
        tools=frozenset(_tools(environment)),
        default_route=_default_route(text("/proc/net/route")),
    )


def _latest(layout: Layout) -> str:
    names = placement.installed_releases(layout.prefix)
    return names[-1] if names else ""


def _installation(
    layout: Layout, release: str, environment: Path, base: Base | None
) -> Installation:
    packages = [*environment.glob("lib/python3*/site-packages")]
    headers = environment
    if base is not None:
        packages += map(Path, base.sites)
        headers = Path(base.executable).parent.parent
    runtimes = [
        *(path for one in packages for path in one.glob("nvidia/*/lib/libcudart.so.*")),
        *environment.glob("lib/libcudart.so.*"),
    ]
    launcher = text(layout.command)
    own = launcher.encode() == install.launcher(layout)
    incomplete = ""
    try:
        models.check_complete(layout, models.to_serve(layout, release))
    except BundleError as error:
        incomplete = "; ".join((error.what, *error.findings[:_SHOWN])) or "incomplete"
    return Installation(
        cuda_majors=tuple(sorted({path.name.split(".")[2] for path in runtimes})),
        python_header=any(headers.glob("include/python3*/Python.h")),
        numa_library=any(environment.glob("lib/libnuma.so.1")),
        moved="" if own or not launcher else _believed(launcher),
        cache_writable=os.access(layout.cache, os.W_OK | os.X_OK),
        incomplete=incomplete,
    )


def _believed(launcher: str) -> str:
    """The prefix in a launcher that is not this installation's."""
    named = [line for line in launcher.splitlines() if line.startswith("prefix=")]
    return named[0].removeprefix("prefix=") if named else "an unknown place"


def _tools(environment: Path | None) -> Iterator[str]:
    path = f"{environment}/bin:{_SYSTEM_PATH}" if environment else _SYSTEM_PATH
    for name in ("cc", "gcc", "clang", "c++", "g++", "clang++", "nvcc", "ninja"):
        if shutil.which(name, path=path):
            yield name


def _default_route(table: str) -> bool:
    """Whether /proc/net/route (IPv4) has a way to everywhere: destination and mask are zero."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return any(len(row) > 7 and row[1] == row[7] == "00000000" for row in rows)
