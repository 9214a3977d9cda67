"""Installs of the tiny bundle of `simulator` in a process that kills itself at a chosen step.

A step is anything that the interpreter reports to an audit hook and that can change a disk: opening
for writing, making, renaming, removing, starting a program. A kill before every step is a kill at
every state that a disk can be found in, but for half-written files.
"""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

from manifests import bundle, tree
from tests.support.simulator import ENVIRONMENT, Simulator, entries, sha256
from tests.support.small import environment

PLACEHOLDER = "/placeholder/that/is/long/enough/for/every/test/prefix"
VOLATILE = f"#!{PLACEHOLDER}/bin/python\n".encode() * 50
#: What conda-unpack does, in the shell that stands in for its Python: in place.
UNPACK = rb"""#!/bin/sh
# $1 to $3 are -E -s -B, $4 is bin/conda-unpack
root=${4%/bin/conda-unpack}
text=$(sed "s|PLACEHOLDER|$root|g" "$root/bin/tool")
printf '%s\n' "$text" >"$root/bin/tool"
"""

_CHILD = """
import os, signal, sys
step, log = int(sys.argv[1]), sys.argv[2]
count = 0
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod",
           "os.truncate", "shutil.rmtree", "subprocess.Popen", "fcntl.flock"}
def hook(event, arguments):
    global count
    if event == "open":
        flags = arguments[2]
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event not in CHANGES:
        return
    count += 1
    if count == step:
        os.kill(os.getpid(), signal.SIGKILL)
from bundlectl.cli import main
sys.addaudithook(hook)
status = main(sys.argv[3:])
os.write(int(log), str(count).encode())
sys.exit(status)
"""


def make(output: Path) -> tuple[Path, str]:
    """The bundle: several members, a volatile file, folders in folders."""
    unpack = UNPACK.replace(b"PLACEHOLDER", PLACEHOLDER.encode())
    content = ENVIRONMENT | {"bin/python": unpack, "bin/tool": VOLATILE}
    simulator = Simulator(environment=content)
    listed = [
        dataclasses.replace(entry, rewrite=tree.Rewrite(PLACEHOLDER, "text"))
        if entry.path == "bin/tool"
        else entry
        for entry in entries(content)
    ]
    manifest = dataclasses.replace(simulator.manifest(), environment=tuple(listed))
    assert sha256(VOLATILE) == next(e.sha256 for e in listed if e.path == "bin/tool")
    return simulator.write(output, manifest)


def run(media: tuple[Path, str], prefix: Path, step: int = 0) -> tuple[int, str, int]:
    """Install; gives the exit status, what was said, and the number of steps of a whole run."""
    folder, digest = media
    reading, writing = os.pipe()
    words = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc"]
    done = subprocess.run(
        [sys.executable, "-B", "-c", _CHILD, str(step), str(writing), *words]
        + ["--media", str(folder), "--manifest", digest, "--prefix", str(prefix)],
        env=environment(),
        pass_fds=(writing,),
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(writing)
    with os.fdopen(reading) as pipe:
        count = pipe.read()
    return done.returncode, done.stderr, int(count or 0)


def release_of(media: tuple[Path, str]) -> str:
    return bundle.release_id(media[0].name, media[1])
