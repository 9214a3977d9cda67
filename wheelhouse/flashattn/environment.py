"""The environment that a build runs in: the lock's torch, what it requires, and the build tools.

Nothing of the builder's own Python is in it, and nothing is added while it builds, so the extension
is compiled against exactly the torch that will serve (Dao-AILab/flash-attention#1920).
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.lock import Build
from wheelhouse.flashattn.workspace import Workspace
from wheelhouse.install import install
from wheelhouse.store import Store

#: Makes an interpreter of the target's Python in a folder that is not there; returns its program.
MakePython = Callable[[Path], Path]
_READY = ".ready"
_TOOLS = ("setuptools", "wheel", "packaging", "psutil", "ninja")
_ASK = f"""
import importlib.util, json, os, sysconfig
found = {{
    "missing": [name for name in {_TOOLS!r} if importlib.util.find_spec(name) is None],
    "headers": os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "site": sysconfig.get_path("purelib"),
    "torch": "", "cuda": "", "abi": False,
}}
if importlib.util.find_spec("torch") is None:
    found["missing"].append("torch")
else:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda or "none",
                 abi=bool(torch.compiled_with_cxx11_abi()))
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Environment:
    """An environment that can build."""

    python: Path
    site: Path  # its site-packages


def make(build: Build, workspace: Workspace, store: Store, make_python: MakePython) -> Environment:
    """Install what the recipe names, once; what a killed run left incomplete is made anew.

    Raises the errors of `look`, and IntegrityError or SourceError where a wheel went bad.
    """
    python = workspace.env / "bin/python"
    if not (workspace.env / _READY).exists():
        for folder in (workspace.python, workspace.env):
            shutil.rmtree(folder, ignore_errors=True)
        base = make_python(workspace.python)
        _run([str(base), "-m", "venv", "--without-pip", "--symlinks", str(workspace.env)])
        wheels = (*build.environment, *build.toolkit)
        scratch = workspace.emptied("pip")
        install(wheels, prefix=workspace.env, store=store, scratch=scratch)
        (workspace.env / _READY).touch()
    return look(build, python)


def look(build: Build, python: Path) -> Environment:
    """Ask an interpreter whether it can build: before an hour is spent, not after.

    Raises SourceError naming a missing build tool, UsageError where Python's headers are missing,
    IntegrityError where its torch is not the recipe's.
    """
    found = json.loads(_run([str(python), "-c", _ASK]))
    if found["missing"]:
        raise SourceError(
            f"the build environment lacks {', '.join(found['missing'])}",
            why="setup.py of flash-attn imports them, and nothing is fetched while it runs",
            mend="make the lock again with `bundle lock`",
        )
    if not found["headers"]:
        raise UsageError(
            "the build's Python has no Python.h",
            why="extensions are compiled against the header files of the target's Python",
            mend="use a conda channel, or install the headers of this Python (python3-dev)",
        )
    torch = str(found["torch"])
    if torch.partition("+")[0] != build.torch.partition("+")[0] or found["cuda"] != build.cuda:
        raise IntegrityError(
            f"the build environment has torch {torch} with CUDA {found['cuda']}, "
            f"the recipe says {build.torch} with {build.cuda}",
            why="the stack's CUDA release is not the one that this torch was built with",
            mend="correct the stack's data, then make the lock again with `bundle lock`",
        )
    if not found["abi"]:
        raise IntegrityError(f"torch {torch} has the old C++ ABI, the recipe says the new one")
    return Environment(python, Path(found["site"]))


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONNOUSERSITE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(
            f"{command[0]} can't be used for a build",
            findings=done.stderr.strip().splitlines()[-4:],
            mend="the target's Python needs its venv module and its own libraries",
        )
    return done.stdout
