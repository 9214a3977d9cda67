"""Make a conda channel out of this machine's own interpreter, for people who reach only an index.

What comes out is a plain conda channel (`--channel host`), so that solving, checking, linking and
packing have one code path. What it can't give is recorded in its packages: they need this machine's
glibc or a newer one, and nobody else has vouched for them.
"""

import asyncio
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import certifi
from rattler.index import index_fs

from bundler import borrowed, hostlibs, hostpython
from bundler.borrowed import NUMA, Borrowed, Obtain
from bundler.condapackage import Recipe, write
from bundler.hostlibs import host_glibc
from bundler.hostpython import Interpreter
from manifests.errors import from_oserror

__all__ = ["build", "host_glibc"]

#: Libraries that wheels expect of an environment although the interpreter needs none of them.
_FOR_WHEELS = ("libstdc++.so.6", "libgcc_s.so.1", NUMA.soname)


def build(
    channel: Path,
    *,
    obtain: Obtain | None = None,
    python: str = sys.executable,
    find: Callable[[str], Path | None] = hostlibs.installed,
    numa: Borrowed = NUMA,
) -> Path:
    """Make the folder `channel` anew from `python` and its libraries; the same bytes every time.

    `find` says where this machine has a library. Where it has no libnuma, that is taken from the
    wheel that `numa` pins and `obtain` fetches, by default with pip.

    Raises UsageError for an interpreter that can't be copied, SourceError where libnuma can't be
    had, FilesystemError where files can't be read or written.
    """
    interpreter = hostpython.describe(python)
    growing = channel.with_name(f"{channel.name}.part")
    try:
        shutil.rmtree(growing, ignore_errors=True)
        with TemporaryDirectory(prefix="host-channel-") as scratch:
            work = _Work(growing, interpreter, Path(scratch))
            work.write_python(find)
            if find(numa.soname) is None:
                work.write_borrowed(numa, obtain)
        asyncio.run(index_fs(growing, write_zst=False, write_shards=False))
        # Whole, because packages of an earlier interpreter would stay in the index.
        shutil.rmtree(channel, ignore_errors=True)
        growing.rename(channel)
    except OSError as error:
        raise from_oserror(error, "making the host channel") from error
    return channel


@dataclass(frozen=True)
class _Work:
    channel: Path
    interpreter: Interpreter
    scratch: Path

    @property
    def glibc(self) -> str:
        return f"__glibc >={self.interpreter.glibc}"

    def write_python(self, find: Callable[[str], Path | None]) -> None:
        """The interpreter, its libraries, and those for wheels that this machine has."""
        stage = self.scratch / "python"
        originals = hostpython.stage(self.interpreter, stage)
        hostlibs.stage_licences(originals[0], "python", stage)
        libraries = {
            soname: path
            for soname, path in hostlibs.loaded(originals).items()
            if not soname.startswith("libpython")
        }
        own = sorted({hostlibs.package_name(soname) for soname in libraries})
        libraries |= {name: path for name in _FOR_WHEELS if (path := find(name)) is not None}
        packages: dict[str, dict[str, Path]] = defaultdict(dict)
        for soname, path in libraries.items():
            packages[hostlibs.package_name(soname)][soname] = path
        for name, files in packages.items():
            self.write_library(name, files)
        self.write_certificates()
        recipe = Recipe(
            "python",
            self.interpreter.version,
            (self.glibc, "ca-certificates", *own),
            licence="PSF-2.0",
            about={"summary": f"copied from {self.interpreter.executable}"},
        )
        write(recipe, stage, self.channel)

    def write_library(self, name: str, files: Mapping[str, Path]) -> None:
        """One package of libraries, with their licences."""
        stage = self.scratch / name
        for soname, path in files.items():
            hostlibs.stage_library(path, soname, stage)
            hostlibs.stage_licences(path, name, stage)
        first = min(files.values())
        about = {"summary": f"copied from {hostlibs.debian_package(first) or first}"}
        depends = (self.glibc, "libgcc") if name == "libstdcxx" else (self.glibc,)
        recipe = Recipe(name, hostlibs.version(first), depends, about=about)
        write(recipe, stage, self.channel)

    def write_borrowed(self, wanted: Borrowed, obtain: Obtain | None) -> None:
        """A library out of a published wheel; its origin stands in about.json."""
        stage = self.scratch / "borrowed"
        fetch = obtain or (lambda pin: borrowed.download(pin, self.scratch / "wheels"))
        borrowed.stage(wanted, stage, fetch)
        origin = f"{wanted.member} of {wanted.requirement} (sha256 {wanted.wheel_sha256})"
        recipe = Recipe(
            hostlibs.package_name(wanted.soname),
            wanted.version,
            (self.glibc,),
            licence=wanted.licence,
            about={"summary": f"copied from {origin}"},
        )
        write(recipe, stage, self.channel)

    def write_certificates(self) -> None:
        """Mozilla's authorities as certifi publishes them, not whatever this machine trusts."""
        stage = self.scratch / "certificates"
        (stage / "ssl").mkdir(parents=True)
        shutil.copyfile(certifi.where(), stage / "ssl" / "cacert.pem")
        recipe = Recipe("ca-certificates", certifi.__version__, subdir="noarch", licence="MPL-2.0")
        write(recipe, stage, self.channel)
