"""The CUDA compilers: found on the machine or taken from wheels, and laid out as CUDA_HOME.

torch.utils.cpp_extension asks for one folder with bin/nvcc, include and lib64. Where that is
assembled from parts, it consists of links: compilers of one place, headers of that place and of the
CUDA libraries that torch brings, and the runtime library to link with.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import IntegrityError, SourceError, UsageError
from wheelhouse.flashattn.tables import Toolkit, tables

_RELEASE = re.compile(r"release (\d+\.\d+)")
#: Where NVIDIA's packages and runfiles put it, beside CUDA_HOME and PATH.
USUAL = "/usr/local/cuda-{release}"
_LIBRARIES = ("lib64", "lib")
#: What an extension is linked with: libcudart.so, and the parts of nvcc's own run time.
_RUNTIME = ("libcudart", "libcudadevrt")


@dataclass(frozen=True)
class Compiler:
    """An nvcc that runs."""

    home: Path  # has bin/nvcc
    release: str  # "13.0"
    version: str  # all that `nvcc --version` says, for the cache's key

    @property
    def nvcc(self) -> Path:
        """The program."""
        return self.home / "bin/nvcc"


def on_machine(
    release: str, environment: Mapping[str, str], usual: str = USUAL
) -> tuple[Compiler | None, str]:
    """The compilers of a CUDA release that the machine has, and a sentence about what was found.

    CUDA_HOME is a wish: what it names has to fit. Others that do not fit are passed over.
    Raises UsageError where CUDA_HOME does not fit.
    """
    wish = environment.get("CUDA_HOME", "")
    if wish:
        return _wished(Path(wish), release), f"nvcc {release} of CUDA_HOME={wish}"
    passed = []
    on_path = shutil.which("nvcc", path=environment.get("PATH", os.defpath))
    places = [_home(Path(on_path))] if on_path else []
    for home in (*places, Path(usual.format(release=release))):
        found = ask(home)
        if found is not None and found.release == release:
            return found, f"nvcc {release} at {found.nvcc}"
        if found is not None:
            passed.append(f"nvcc {found.release} at {found.nvcc}")
    return None, f"passed over: {', '.join(passed)}" if passed else "no nvcc on this machine"


def ask(home: Path) -> Compiler | None:
    """The compiler in a folder; None where there is none or it does not run."""
    nvcc = home / "bin/nvcc"
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = _RELEASE.search(done.stdout)
    if done.returncode or match is None:
        return None
    return Compiler(home, match[1], done.stdout)


def missing(release: str, found: str) -> SourceError:
    """Nothing on the machine, and no wheels either. `found` is the sentence of `on_machine`."""
    return SourceError(
        f"flash-attn needs nvcc {release}, the release that torch was built with: {found}",
        why=f"PyPI has no wheel with nvcc {release}"
        if not tables().toolkit(release).requirements
        else "the recipe was made without compiler wheels",
        mend=f"install NVIDIA's packages cuda-nvcc-{_dashed(release)} and "
        f"cuda-cudart-dev-{_dashed(release)} and set CUDA_HOME to them, "
        "or bring a wheel with --flash-attn-wheel",
    )


def check_host_compiler(toolkit: Toolkit, path: str, program: str = "c++") -> str:
    """The version of the C++ compiler on a PATH that nvcc will use, as it says it.

    Raises UsageError where there is none, or one that is newer than nvcc accepts.
    """
    found = shutil.which(program, path=path)
    if found is None:
        raise UsageError(
            f"there is no C++ compiler ({program}) on this machine",
            mend="install one (Debian, Ubuntu: `apt install g++`), then run the same command again",
        )
    done = subprocess.run([found, "-dumpfullversion"], capture_output=True, text=True, check=False)
    version = done.stdout.strip()
    major = version.partition(".")[0]
    if toolkit.gcc and major.isdigit() and int(major) > toolkit.gcc:
        raise UsageError(
            f"{program} is version {version}, nvcc {toolkit.cuda} accepts at most {toolkit.gcc}",
            mend=f"install g++-{toolkit.gcc} and put it first on PATH under the name {program}",
        )
    return version


def of_wheels(site: Path, release: str) -> Compiler:
    """The compilers that wheels put into site-packages: CUDA 13's are all in nvidia/cu13.

    Raises UsageError where they do not run, IntegrityError where they are of another release.
    """
    home = next((nvcc.parents[1] for nvcc in sorted(site.glob("nvidia/cu*/bin/nvcc"))), site)
    found = ask(home)
    if found is None:
        raise UsageError(
            f"the compilers from wheels do not run ({home}/bin/nvcc)",
            mend="install CUDA's compilers on this machine and set CUDA_HOME to them",
        )
    if found.release != release:
        raise IntegrityError(
            f"the recipe's compiler wheels hold nvcc {found.release}, torch wants {release}",
            mend="make the lock again with `bundle lock`",
        )
    return found


def lay_out(folder: Path, compiler: Compiler, site: Path) -> Path:
    """CUDA_HOME as links in `folder`; `site` is the site-packages that hold torch."""
    shutil.rmtree(folder, ignore_errors=True)
    include, lib = folder / "include", folder / "lib64"
    include.mkdir(parents=True)
    lib.mkdir()
    for part in ("bin", "nvvm"):
        if (compiler.home / part).is_dir():
            (folder / part).symlink_to(compiler.home / part)
    homes = (compiler.home, *sorted(site.glob("nvidia/*")))
    _link_all(include, (entry for home in homes for entry in _entries(home / "include")))
    major = compiler.release.partition(".")[0]
    libraries = (file for home in homes for part in _LIBRARIES for file in _entries(home / part))
    _link_all(lib, (file for file in libraries if file.name.startswith(_RUNTIME)))
    runtime = lib / f"libcudart.so.{major}"
    if not (lib / "libcudart.so").exists() and runtime.exists():
        (lib / "libcudart.so").symlink_to(runtime.name)
    return folder


def _wished(home: Path, release: str) -> Compiler:
    if not (home / "bin/nvcc").is_file():
        raise UsageError(
            f"CUDA_HOME={home} has no bin/nvcc",
            mend=f"set CUDA_HOME to a folder with nvcc {release}, or unset it",
        )
    found = ask(home)
    if found is None:
        raise UsageError(
            f"{home}/bin/nvcc does not run",
            mend="repair that installation, or unset CUDA_HOME",
        )
    if found.release != release:
        raise UsageError(
            f"{found.nvcc} is of CUDA {found.release}, torch was built with {release}",
            why="CUDA_HOME names it; code of two releases does not go together",
            mend=f"set CUDA_HOME to a toolkit of {release}, or unset it",
        )
    return found


def _home(nvcc: Path) -> Path:
    """The toolkit of an nvcc on PATH, through links and the two-line scripts that stand for it."""
    real = nvcc.resolve()
    done = subprocess.run(
        [real, "--dryrun", "-c", "x.cu"], capture_output=True, text=True, check=False
    )
    match = re.search(r"^#\$ TOP=(.+)$", done.stderr, re.MULTILINE)
    return Path(match[1]).resolve() if match else real.parent.parent


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _link_all(folder: Path, entries: Iterable[Path]) -> None:
    """Link each name once: the first place that has it counts."""
    for entry in entries:
        link = folder / entry.name
        if not link.is_symlink():
            link.symlink_to(entry)


def _dashed(release: str) -> str:
    return release.replace(".", "-")
