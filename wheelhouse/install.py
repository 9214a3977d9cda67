"""Installing into a prefix from outside it, with nothing but what the lock names."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from manifests.errors import FilesystemError, IntegrityError, SourceError
from manifests.inventory import Distribution
from manifests.lock import Wheel
from wheelhouse import stubs
from wheelhouse.resolve import requirements_text
from wheelhouse.store import Store
from wheelhouse.toolbox import pretend

#: What fits was decided when the lock was made, by the target's glibc; the builder's may be older.
_ANY_GLIBC = "2.99"
_FLAGS = (
    "--no-index",
    "--require-hashes",
    "--no-deps",
    "--only-binary=:all:",
    "--no-compile",  # bytecode holds paths and time stamps
    "--no-cache-dir",
    "--no-warn-script-location",
    "--progress-bar=off",
    "--quiet",
)


def install(wheels: Sequence[Wheel], *, prefix: Path, store: Store, scratch: Path) -> None:
    """Install wheels that are in the store; pip hashes each while it reads it.

    Raises IntegrityError where an object of the store went bad (it is removed), FilesystemError
    where one is missing or the disk is full, SourceError where pip refuses for another reason.
    """
    links = scratch / "links"
    links.mkdir(parents=True)
    for wheel in wheels:
        (links / wheel.filename).symlink_to(store.path(wheel.sha256))
    requirements = scratch / "requirements.txt"
    requirements.write_text(requirements_text(wheels), "utf-8")
    words = ("install", *_FLAGS, "--find-links", str(links), "--requirement", str(requirements))
    done = _pip(prefix, *words, scratch=scratch)
    if done.returncode and _mended(wheels, store):
        done = _pip(prefix, *words, scratch=scratch)  # it installs nothing before it has hashed all
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if any("No space left" in line for line in lines):
        raise FilesystemError(
            f"{prefix}: no space left (while installing the wheels)",
            mend="free some space or choose another folder, then run the same command again",
        )
    raise SourceError("pip could not install the locked wheels", findings=lines[-6:])


def _mended(wheels: Sequence[Wheel], store: Store) -> bool:
    """Whether an object of the store was bad, and is there again."""
    return sum(store.heal(wheel.sha256, wheel.filename) for wheel in wheels) > 0


def check(prefix: Path, scratch: Path, provided: Iterable[Distribution] = ()) -> tuple[str, ...]:
    """What `pip check` finds wrong in a prefix: broken requirements and foreign platforms.

    `provided` is taken as installed beside, without a trace in the prefix.
    Raises IntegrityError where pip can't look at all.
    """
    stubs.pretend_installed(provided, scratch / "hooks")
    done = _pip(prefix, "check", scratch=scratch)
    if done.returncode == 0:
        return ()
    problems = tuple(line for line in done.stdout.splitlines() if line.strip())
    if not problems:
        raise IntegrityError(f"{prefix}: pip check failed: {done.stderr.strip()[-300:]}")
    return problems


def _pip(prefix: Path, *arguments: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    """The builder's pip, at work on a prefix that has none; in English, without any settings."""
    hooks = scratch / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    pretend(hooks, _ANY_GLIBC)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(prefix / "bin/python")),
            *("--isolated", "--disable-pip-version-check", "--no-input", *arguments),
        ],
        env={
            "PATH": os.defpath,
            "HOME": str(scratch),
            "LC_ALL": "C.UTF-8",
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": str(hooks),
            "TMPDIR": str(scratch),
        },
        # Installed modes must not depend on who builds.
        umask=0o022,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
