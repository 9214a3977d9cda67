"""Rehearse a finished bundle: install it from its medium, start it cold, have it answer.

All of that is done by the medium's own install.sh, in a scratch folder, and without a network and
compilers where this machine lets us have namespaces. The proof names the manifest's digest, what
was rehearsed, and what could not be.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundler import bare, carried
from manifests import synced
from manifests.console import Console
from manifests.errors import (
    BundleError,
    FilesystemError,
    IntegrityError,
    ServerError,
    TargetError,
    UsageError,
    from_oserror,
)
from manifests.medium import INSTALLER

#: Seconds that an interrupted command gets to undo what it has begun.
_UNDOING = 60
#: An isolated host's own programs; nothing of this machine's Python is on it.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
#: Of the host, for what nvidia's tools show of it.
_PASSED = ("CUDA_VISIBLE_DEVICES", "TMPDIR", "XDG_RUNTIME_DIR")
_KINDS = {
    int(kind.exit_code): kind
    for kind in (FilesystemError, IntegrityError, ServerError, TargetError, UsageError)
}
_NO_NAMESPACE = "without a network and without compilers: this machine lets us make no namespaces"


@dataclass(frozen=True)
class Wish:
    """What is asked for beside the medium."""

    prefix: Path | None = None  # a folder that is not there yet; None: a scratch folder
    into_python: Path | None = None  # the interpreter below an overlay
    keep_caches: Path | None = None


@dataclass(frozen=True)
class Proof:
    """A bundle that has been installed and has answered."""

    bundle: str
    manifest_sha256: str
    model: str
    rehearsed: tuple[str, ...]
    not_rehearsed: tuple[str, ...]
    seconds: dict[str, int]  # by step
    caches: dict[str, Any] | None = None  # what bundlectl says of those that were kept

    def as_record(self) -> dict[str, Any]:
        """The proof as it is written."""
        return vars(self)


def rehearse(medium: Path, wish: Wish, console: Console) -> Proof:
    """Install a medium, have its server answer once, and remove both again.

    Raises what install.sh and bundlectl say: IntegrityError for a wrong byte, TargetError where
    this machine is none that the bundle is for, ServerError where no answer comes.
    """
    script = medium.absolute() / INSTALLER
    if not script.is_file():
        raise UsageError(f"{medium}: holds no {INSTALLER}", mend="name the folder of a bundle")
    _check_whole(medium)
    if wish.keep_caches is not None:
        synced.check_target(wish.keep_caches)
    cut_off = _namespace()
    rehearsed, missing = ["every byte of the medium", "installation"], []
    if cut_off:
        rehearsed += ["without a network", "without compilers"]
    else:
        missing.append(_NO_NAMESPACE)
    seconds, kept = {}, None
    with _prefix(wish.prefix) as prefix:
        control = prefix / "bin/bundlectl"
        words = ["--prefix", str(prefix), "--port", str(_free_port())]
        if wish.into_python is not None:
            words += ["--into-python", str(wish.into_python.absolute())]
        begun = time.monotonic()
        try:
            with console.stage("install, and wait for an answer"):
                started = _run([*cut_off, "sh", str(script), *words])
            rehearsed += ["cold start", "one completion"]
            seconds = {"installed": int(time.monotonic() - begun), "ready": started["seconds"]}
            _run([str(control), "stop"])
            if wish.keep_caches is not None:
                with console.stage("start again, and keep what was compiled"):
                    target = str(wish.keep_caches.absolute())
                    warm = _run([*cut_off, str(control), "rehearse", "--keep-caches", target])
                rehearsed.append("warm start")
                seconds["warm"], kept = warm["seconds"], warm["caches"]
            audited = _run([str(control), "audit"])
            rehearsed.append("audit of the installation")
        finally:
            if control.exists():  # whatever is left of a failed start
                subprocess.run(
                    [control, "stop"], env=_environment(), capture_output=True, check=False
                )
    return Proof(
        medium.name,
        audited["manifest_sha256"][0],
        started["model"],
        tuple(rehearsed),
        tuple(missing),
        seconds,
        kept,
    )


def _check_whole(medium: Path) -> None:
    made = carried.look(carried.medium_of([medium])).manifest.delta
    if made is not None:
        raise UsageError(
            f"{medium}: is a delta, and can't be rehearsed",
            why=f"the scratch folder that it is installed into has no {made.base} to build on",
            mend="rehearse the whole bundle; once installed, the delta is the same to the last bit",
        )


def _run(words: Sequence[str]) -> dict[str, Any]:
    """Run a command of the installation; gives what it says, raises what it refuses."""
    with subprocess.Popen(
        [*words, "--json"],
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # an interrupt is ours to hand on, once
    ) as child:
        try:
            output, log = child.communicate()
        except BaseException:
            child.send_signal(signal.SIGINT)  # it undoes what it has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=_UNDOING)
            child.kill()
            raise
    try:
        told: dict[str, Any] = json.loads(output)
    except ValueError:
        told = {}
    if child.returncode == 0 and told:
        return told
    kind: type[BundleError] = _KINDS.get(child.returncode, ServerError)
    raise kind(
        told.get("error") or f"{_named(words)} ended with status {child.returncode}",
        why=told.get("why", ""),
        mend=told.get("mend", ""),
        findings=told.get("findings") or log.strip().splitlines()[-10:],
    )


def _named(words: Sequence[str]) -> str:
    return next(name for word in words if (name := Path(word).name) in (INSTALLER, "bundlectl"))


def _environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**_ENVIRONMENT, "HOME": str(Path.home()), **passed}


def _namespace() -> tuple[str, ...]:
    """The start of a command that runs the rest on a bare host; empty where that can't be."""
    unshare = shutil.which("unshare", path=os.defpath)
    if unshare is None:
        return ()
    alone = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = (unshare, *alone, "--net", "--mount", "--", sys.executable, "-I", bare.__file__)
    probe = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if probe.returncode == 0 else ()


@contextlib.contextmanager
def _prefix(wanted: Path | None) -> Iterator[Path]:
    """A folder to install into, which is not there before and not there afterwards."""
    if wanted is not None and wanted.exists():
        raise UsageError(
            f"{wanted}: is there already, and would be removed afterwards",
            mend="name a folder with --prefix that does not exist",
        )
    try:
        if wanted is None:
            with tempfile.TemporaryDirectory(prefix="vllm-bundle-rehearsal-") as scratch:
                yield Path(scratch) / "prefix"
            return
        try:
            yield wanted.absolute()
        finally:
            if wanted.exists():
                shutil.rmtree(wanted)
    except OSError as error:
        raise from_oserror(error, "rehearsing the bundle") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
