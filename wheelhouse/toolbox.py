"""pip-tools under a foreign interpreter that has no pip: tools beside it, nothing in its prefix.

The tools are the distributions that the running builder uses, and no others: a scratch folder on
PYTHONPATH has links to them. Beside them lies `_manylinux.py`, the hook of PEP 600 by which an
interpreter says which manylinux wheels fit, so that pip, pip-tools and packaging all see the
target's glibc instead of the builder's. The hook can only narrow: packaging counts its ladder down
from the glibc that it finds by `os.confstr`, so `sitecustomize.py` has that name the target's.
"""

import importlib.metadata
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError
from manifests.lock import Target

#: pip-tools and what it requires, as in its METADATA; tomli only where the builder has it.
_DISTRIBUTIONS = ("pip", "pip-tools", "click", "build", "pyproject_hooks", "packaging", "wheel")
_OPTIONAL = ("setuptools", "tomli")

# https://peps.python.org/pep-0600/#package-installers
_MANYLINUX = """\
def manylinux_compatible(major, minor, arch):
    return (major, minor) <= ({glibc}) and arch == {arch!r}
"""
_SITECUSTOMIZE = """\
import os
_asked = os.confstr
def _confstr(name, /):
    return {answer!r} if name == "CS_GNU_LIBC_VERSION" else _asked(name)
os.confstr = _confstr
"""
_PLATFORM = """\
import json, platform
from packaging.tags import sys_tags
tags = [str(tag) for tag in sys_tags()]
print(json.dumps({"python": platform.python_version(), "tags": tags}))
"""


@dataclass(frozen=True)
class Platform:
    """What the target's interpreter accepts."""

    python: str  # full version, "3.11.9"
    arch: str  # "x86_64"
    glibc: str  # "2.28"
    tags: tuple[str, ...]  # best first


@dataclass(frozen=True)
class Toolbox:
    """The tools' folder and the interpreter that runs them."""

    folder: Path
    python: Path
    target: Target

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with the tools in reach and nothing of the caller's environment.

        `environment` is added. Raises UsageError where the interpreter can't be started.
        """
        clean = {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": str(self.folder),
            "TMPDIR": str(self.folder.parent),
        }
        try:
            return subprocess.run(
                [str(self.python), *arguments],
                env=clean | dict(environment or {}),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise UsageError(
                f"{self.python}: the interpreter can't be started ({error.strerror})"
            ) from error

    def platform(self) -> Platform:
        """Ask the interpreter what it accepts.

        Raises UsageError where it is not of the Python that the target names.
        """
        done = self.run("-c", _PLATFORM)
        if done.returncode:
            raise UsageError(f"{self.python}: does not run", why=done.stderr.strip()[-300:])
        found = json.loads(done.stdout)
        if found["python"].rpartition(".")[0] != self.target.python:
            raise UsageError(
                f"{self.python} is Python {found['python']}, the target's is {self.target.python}"
            )
        tags = tuple(found["tags"])
        return Platform(found["python"], self.target.arch, self.target.glibc, tags)


def prepare(scratch: Path, python: Path, target: Target) -> Toolbox:
    """Lay the tools out below a scratch folder.

    Raises UsageError where the running builder lacks one of them.
    """
    folder = scratch / "tools"
    folder.mkdir(parents=True)
    for name in (*_DISTRIBUTIONS, *_OPTIONAL):
        try:
            _link(importlib.metadata.distribution(name), folder)
        except importlib.metadata.PackageNotFoundError:
            if name not in _OPTIONAL:
                raise UsageError(
                    f"the builder's Python has no {name}",
                    mend="install vllm-bundle again: `pip install vllm-bundle` brings it",
                ) from None
    pretend(folder, target.glibc, target.arch)
    return Toolbox(folder, python, target)


def pip_alone(folder: Path, toolbox: Toolbox) -> Toolbox:
    """A toolbox of pip alone in an empty folder, so that nothing counts as installed."""
    found = importlib.metadata.distribution("pip").locate_file("pip")
    (folder / "pip").symlink_to(Path(str(found)).absolute())
    pretend(folder, toolbox.target.glibc, toolbox.target.arch)
    return Toolbox(folder, toolbox.python, toolbox.target)


def pretend(folder: Path, glibc: str, arch: str = "x86_64") -> None:
    """Write the modules that have an interpreter, with `folder` on PYTHONPATH, name a glibc."""
    hook = _MANYLINUX.format(glibc=", ".join(glibc.split(".")), arch=arch)
    (folder / "_manylinux.py").write_text(hook, "ascii")
    answer = _SITECUSTOMIZE.format(answer=f"glibc {glibc}")
    (folder / "sitecustomize.py").write_text(answer, "ascii")


def _link(distribution: importlib.metadata.Distribution, folder: Path) -> None:
    """Make what a distribution has at the top of site-packages visible in a folder."""
    tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    for top in tops:
        (folder / top).symlink_to(Path(str(distribution.locate_file(top))).absolute())
