"""The host's own Python, below an overlay: what it says of the environment that it runs in."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from manifests import inventory
from manifests.bundle import Manifest
from manifests.errors import UsageError
from manifests.inventory import Inventory
from manifests.overlay import Base

#: Seconds. 200 distributions on a cold network disk took ten.
_PATIENCE = 300
#: As a server of ours will find it: without LD_LIBRARY_PATH and whatever else this shell has set.
_CLEAN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
MEND = "name the Python (3.8 or newer) of the environment that holds the host's packages"


def interpreter(path: Path) -> Path:
    """The interpreter that an operator means: itself, or the folder of its virtual environment.

    Links are kept: they are what makes a Python that of its environment.
    """
    path = path.absolute()
    return path / "bin/python" if path.is_dir() else path


def take(python: Path) -> Inventory:
    """What the environment of an interpreter holds now; nothing is changed in it.

    Raises UsageError where the interpreter can't be run, or can't tell.
    """
    command = [str(python), *inventory.FLAGS, str(inventory.script_path())]
    try:
        done = subprocess.run(
            command,
            env=_CLEAN,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"{python}: can't be run: {error.strerror}", mend=MEND) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{python}: did not say in {_PATIENCE} s what its environment holds", mend=MEND
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(
            f"{python}: can't say what its environment holds",
            why=said[-1] if said else f"it ended with status {done.returncode}",
            mend=MEND,
        )
    # Modules that the environment loads at every start may have printed something before.
    line = done.stdout.rstrip(b"\n").rpartition(b"\n")[2]
    return inventory.parse(line, str(python))


@dataclass(frozen=True)
class Below:
    """What a host has now in the place of an overlay's base."""

    python: str  # the interpreter that the operator named
    inventory: Inventory | None = None
    problem: str = ""  # why it can't tell what it holds

    @property
    def base(self) -> Base | None:
        """What a release is put on; None where that can't be told."""
        if self.inventory is None:
            return None
        told = self.inventory.interpreter
        return Base(self.python, executable(self.inventory), told.version, told.sites)


def look(python: str) -> Below:
    """What an interpreter tells; never fails for its sake."""
    try:
        return Below(python, take(Path(python)))
    except UsageError as error:
        told = (error.what, *error.findings[:1], error.why)
        return Below(python, problem="; ".join(filter(None, told)))


def executable(found: Inventory) -> str:
    """The program that an environment's Python is in the end.

    Python looks for its standard library from there (Modules/getpath.py), links followed.
    """
    return os.path.realpath(found.interpreter.base_executable)


def named(manifest: Manifest, given: str, recorded: Base | None) -> str:
    """The interpreter below a bundle: `given` by the operator, or that of its receipt; "" for none.

    Raises UsageError where one is missing, not wanted, not there, or another than before.
    """
    if manifest.overlay is None:
        if given:
            raise UsageError(
                f"{manifest.name} brings a Python of its own, and takes no --into-python",
                why="that names the environment that an overlay is put on",
                mend="leave --into-python away, or take a bundle made with --overlay",
            )
        return ""
    if not given and recorded is None:
        count = len(manifest.overlay.provided)
        raise UsageError(
            f"{manifest.name} is an overlay: which Python environment does it go on?",
            why=f"{count} of its distributions are the host's own; nothing of them is changed",
            mend="name that environment's interpreter: --into-python /path/to/bin/python",
        )
    if not given and recorded is not None:
        return recorded.python
    path = interpreter(Path(given))
    if recorded is not None:
        if not _is_same(path, Path(recorded.python)):
            raise UsageError(
                f"{manifest.name} is installed on {recorded.python}, not on {path}",
                why="an installed release keeps what it was put on",
                mend="leave --into-python away, or install into another --prefix",
            )
        return recorded.python
    if not path.exists():
        raise UsageError(f"{path}: there is no such interpreter", mend=MEND)
    return str(path)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are of one environment: all of its Pythons lie in one folder.

    That they are one program does not do: virtual environments share theirs.
    """
    return (one.parent.resolve(), one.resolve()) == (other.parent.resolve(), other.resolve())
