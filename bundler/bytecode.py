"""Bytecode that the runtime carries, so that no call of bundlectl compiles its modules again.

It is made by the runtime's own interpreter, outside the environment, and holds no path of this
machine. Nothing compares it with its source when it is loaded: both are under the manifest.
"""

import posixpath
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bundler.packplan import Member
from manifests.errors import IntegrityError, from_oserror
from manifests.tree import FOLDER

#: Prints the source files, below the prefix, of all that the packages named import. A runtime may
#: lack what some of their modules want; `__main__` would start the program.
_IMPORTED = """\
import contextlib, importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
print(*(file.removeprefix(sys.prefix + "/") for file in files), sep="\\n")
"""


def with_bytecode(
    members: Sequence[Member], prefix: Path, packages: Sequence[str], scratch: Path
) -> tuple[Member, ...]:
    """Planned members of an environment, and bytecode of `packages` and of what they import.

    `scratch` is a new folder for it, which has to stay until the members are written.
    Raises IntegrityError where a module can't be compiled, FilesystemError where the disk fails.
    """
    try:
        imported = set(_run(prefix, "-c", _IMPORTED, *packages).splitlines())
        sources = [
            member.path
            for member in members
            if _is_source(member) and (member.path in imported or _package(member.path) in packages)
        ]
        return _merged(members, _compiled(prefix, sources, scratch))
    except OSError as error:
        raise from_oserror(error, "compiling the runtime's modules") from error


def _is_source(member: Member) -> bool:
    """Whether a member is a module whose installed bytes are those in the environment."""
    own = member.source is not None and member.data is None and member.rewrite is None
    return own and member.path.endswith(".py")


def _package(path: str) -> str:
    """The installed package that a path is of; empty for the standard library."""
    return path.partition("/site-packages/")[2].partition("/")[0]


def _compiled(prefix: Path, sources: Sequence[str], scratch: Path) -> list[Member]:
    below = scratch / prefix.absolute().relative_to("/")  # as pycache_prefix lays it out
    listed = "".join(f"{prefix.absolute() / path}\n" for path in sources)
    # One process: the bytes depend on what else it holds (marshal marks what is referred to).
    _run(
        *(prefix, "-X", f"pycache_prefix={scratch}", "-m", "compileall", "-q", "-i", "-"),
        *("--invalidation-mode", "unchecked-hash", "-s", str(prefix.absolute())),
        given=listed,
    )
    return [
        Member(str(path.parent.relative_to(below) / "__pycache__" / path.name), source=path)
        for path in below.rglob("*.pyc")
    ]


def _merged(members: Sequence[Member], compiled: Sequence[Member]) -> tuple[Member, ...]:
    found = {member.path: member for member in (*members, *compiled)}
    for member in compiled:
        folder = posixpath.dirname(member.path)
        found.setdefault(folder, Member(folder, FOLDER))
    return tuple(found[path] for path in sorted(found))


def _run(prefix: Path, *words: str, given: str = "") -> str:
    python = prefix.absolute() / "bin/python"
    done = subprocess.run(
        [python, "-I", "-B", *words],
        input=given,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise IntegrityError(
            "the runtime's modules can't be compiled",
            findings=(done.stderr or done.stdout).strip().splitlines()[-5:],
            mend="install vllm-bundle again; if that does not help, report it with the lock",
        )
    return done.stdout
