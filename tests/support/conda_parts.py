"""Real conda parts for several test files: a channel of this interpreter, made once per session."""

import atexit
import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from bundler import conda, hostchannel, hostlibs
from bundler.borrowed import NUMA, Borrowed
from manifests.digests import hash_file
from manifests.lock import CondaPackage, Target
from wheelhouse.fetch import Fetcher
from wheelhouse.sources import Sources
from wheelhouse.store import Store

SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"
SPECS = (f"python {SERIES}.*", "libstdcxx", "libgcc", "libnuma", "ca-certificates")
WINNING = ("libstdc++.so.6", "libgcc_s.so.1")


def target(glibc: str = "") -> Target:
    return Target(("cpu",), glibc or hostchannel.host_glibc(), SERIES)


@cache
def scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="conda-parts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def host_channel(python: str = sys.executable) -> Path:
    """The channel of an interpreter, its libnuma taken from `numa_wheel`."""
    folder = scratch() / f"channel{python.replace('/', '-')}"
    return hostchannel.build(
        folder, python=python, find=without_numa, numa=numa(), obtain=numa_wheel
    )


def without_numa(soname: str) -> Path | None:
    """Where this machine has a library, as if it were a bare one."""
    return None if "numa" in soname else hostlibs.installed(soname)


@cache
def numa_wheel(_: Borrowed | None = None) -> Path:
    """A wheel with a library as auditwheel leaves it: another name, another soname."""
    zlib = hostlibs.installed("libz.so.1")
    assert zlib is not None
    found = scratch() / "bundled-1.0-py3-none-any.whl"
    with zipfile.ZipFile(found, "w") as archive:
        archive.write(zlib.resolve(), "bundled.libs/libnuma-0123abcd.so.1.0.0")
    return found


def numa() -> Borrowed:
    """The pin of `numa_wheel`."""
    zlib = hostlibs.installed("libz.so.1")
    assert zlib is not None
    return replace(
        NUMA,
        member="bundled.libs/libnuma-0123abcd.so.1.0.0",
        sha256=hash_file(zlib),
        wheel_sha256=hash_file(numa_wheel()),
    )


def file_channel(folder: Path) -> conda.Channel:
    return conda.Channel("host", folder.as_uri())


@cache
def packages(python: str = sys.executable) -> tuple[CondaPackage, ...]:
    source = file_channel(host_channel(python))
    return conda.solve(source, SPECS, target(), scratch() / "repodata")


@cache
def store(python: str = sys.executable) -> Store:
    kept = Store(scratch() / "store")
    conda.fetch(packages(python), file_channel(host_channel(python)), Fetcher(Sources(""), kept))
    return kept


def make(prefix: Path, cache_folder: Path, python: str = sys.executable) -> Path:
    """A real environment, without wheels."""
    conda.create(packages(python), prefix, store(python), cache_folder)
    return prefix


def wheel(folder: Path, name: str = "hello", extra: dict[str, bytes] | None = None) -> Path:
    """A wheel with a module, a console script and further files."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": b'import sys\n\ndef main():\n    print("hello from", sys.prefix)\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n".encode(),
        **(extra or {}),
    }
    record = io.StringIO()
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.write(f"{path},sha256={digest},{len(data)}\n")
    record.write(f"{info}/RECORD,,\n")
    target_file = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(target_file, "w") as archive:
        for path, data in {**files, f"{info}/RECORD": record.getvalue().encode()}.items():
            archive.writestr(path, data)
    return target_file


def pip_install(python: Path, wheel_file: Path) -> None:
    """Install a wheel with this interpreter's pip from outside and by name, as the bundler does."""
    name = wheel_file.name.partition("-")[0]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "--isolated", "install", "--quiet",
         "--no-index", "--no-deps", "--no-compile", "--no-cache-dir",
         "--disable-pip-version-check", "--root-user-action=ignore",
         "--find-links", wheel_file.parent, name],
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


def run(python: Path, *arguments: str | Path) -> str:
    """What a program prints, in a clean surrounding."""
    done = subprocess.run(
        [python, *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def host_python() -> Path:
    """The interpreter itself, not a virtual environment's link to it."""
    return Path(sys.executable).resolve()
