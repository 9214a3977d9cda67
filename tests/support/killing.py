"""Installs of the tiny bundle of `simulator` in a process that kills itself at a chosen step.

A step is anything that the interpreter reports to an audit hook and that can change a disk: opening
for writing, making, renaming, removing, starting a program. A kill before every step is a kill at
every state that a disk can be found in, but for half-written files.
"""

import dataclasses
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

#: Imports once, then forks for each line "STEP PREFIX [WORD…]" (tabs in between) that it reads;
#: answers "STATUS STEPS".
_FORKS = """
import os, signal, sys
from bundlectl.cli import main
folder, digest, errors = sys.argv[1:]
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod",
           "os.truncate", "shutil.rmtree", "subprocess.Popen", "fcntl.flock"}
WORDS = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc",
         "--media", folder, "--manifest", digest]

def install(step, prefix, words, counted):
    count = 0
    def hook(event, arguments):
        nonlocal count
        writes = event in CHANGES
        if event == "open" and isinstance(arguments[2], int):
            writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        count += bool(writes)
        if writes and count == step:
            os.kill(os.getpid(), signal.SIGKILL)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(2, 1)
    sys.addaudithook(hook)
    status = main([*WORDS, "--prefix", prefix, *words])
    os.write(counted, str(count).encode())
    os._exit(status)

for line in sys.stdin:
    step, prefix, *words = line.rstrip().split("\t")
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        install(int(step), prefix, words, writing)
    os.close(writing)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(status, os.read(reading, 20).decode() or 0, flush=True)
    os.close(reading)
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


class Host:
    """Installs one bundle as often as wanted. Close it."""

    def __init__(self, media: tuple[Path, str], errors: Path) -> None:
        self.errors = errors
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", _FORKS, str(media[0]), media[1], str(errors)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def install(self, prefix: Path, step: int = 0, words: tuple[str, ...] = ()) -> tuple[int, int]:
        """Exit status, and the number of steps of a whole run; killed before `step` if not 0."""
        self.process.stdin.write("\t".join((str(step), str(prefix), *words)) + "\n")
        self.process.stdin.flush()
        status, count = self.process.stdout.readline().split()
        return int(status), int(count)

    def told(self) -> str:
        """What the last run said."""
        return self.errors.read_text()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def release_of(media: tuple[Path, str]) -> str:
    return bundle.release_id(media[0].name, media[1])
