"""A host as bare as they come: a namespace without a network, where no compiler can be found.

`enter` starts this program anew below `unshare --mount --net`; there `furnish` brings up the
loopback interface and binds /dev/null over every compiler, assembler, linker and build tool, and
an empty folder over CUDA's toolkit. All of it goes when the last process of the namespace ends;
outside, nothing changes. Needs root.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bundler import bare as shared
from bundler.bare import FOLDERS, TOOLS
from scripts.without_network import has_route, loopback_up

_INSIDE = "_ISOLATED_RUN"
#: Of a Python environment: tools that came as wheels. Triton's own ptxas is part of Triton.
IN_PACKAGES = ("nvidia/*/bin/*", "nvidia/*/nvvm/bin/*", "ninja/data/bin/*", "torch/bin/*")
#: Whole trees that are empty on a bare host.
TREES = ("/usr/local/cuda*", "/opt/gcc")


def enter(words: Sequence[str]) -> None:
    """Become `words` in new namespaces, unless this process is there already."""
    if os.environ.get(_INSIDE) == "1":
        return
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", *words])


def inside() -> bool:
    return os.environ.get(_INSIDE) == "1"


def furnish(python: Path | None, keep: Path) -> dict[str, object]:
    """Make the namespace bare; says what was hidden, and what can be found all the same.

    `python` is an interpreter whose packages are looked through; nothing below `keep` is touched.
    """
    loopback_up()
    files = sorted(set(tools(python, keep)))
    for file in files:
        subprocess.run(["mount", "--bind", "/dev/null", file], check=True)
    trees = sorted({path for pattern in TREES for path in _folders(pattern)})
    for tree in trees:
        subprocess.run(["mount", "-t", "tmpfs", "none", tree], check=True)
    return {
        "hidden": [str(file) for file in files],
        "emptied": [str(tree) for tree in trees],
        "found_all_the_same": [name for name in TOOLS if shutil.which(name)],
        "route_out": has_route(),
    }


def tools(python: Path | None, keep: Path) -> Iterator[Path]:
    """The real files of all tools outside `keep`."""
    folders = {*os.environ.get("PATH", "").split(":"), *FOLDERS}
    places = [Path(folder) for folder in folders if folder.startswith("/")]
    if python is not None:
        places.append(python.parent)
        root = python.parent.parent
        for pattern in IN_PACKAGES:
            found = root.glob(f"lib/python3*/site-packages/{pattern}")
            yield from _outside(shared.real(found), keep)
    yield from _outside(shared.tools(places), keep)


def _outside(files: Iterable[Path], keep: Path) -> Iterator[Path]:
    return (file for file in files if not file.is_relative_to(keep))


def _folders(pattern: str) -> Iterator[Path]:
    for path in Path("/").glob(pattern.lstrip("/")):
        if path.is_dir() and not path.is_symlink():
            yield path


def clean_environment(extra: str = "") -> dict[str, str]:
    """What an operator's shell has there: no compiler's variables, the driver's own programs."""
    smi = shutil.which("nvidia-smi")
    path = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    first = [str(Path(smi).parent)] if smi else []
    kept = {name: os.environ[name] for name in ("HOME", "TERM", "TZ") if name in os.environ}
    return {**kept, "PATH": ":".join([*filter(None, [extra]), *first, *path]), "LC_ALL": "C.UTF-8"}
