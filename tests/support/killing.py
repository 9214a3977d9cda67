"""Installs and writes of tiny bundles in a process that kills itself at a chosen step.

A step is anything that the interpreter reports to an audit hook and that can change a disk: opening
for writing, making, renaming, removing, starting a program; and every sync. A kill before every
step is a kill at every state that a disk can be found in. A file that is about to be synced loses
its last bytes in the kill, as in a power cut: journal lines are half written then, and blocks of
data are shorter than what was written. (Nothing is really synced: no test here cuts the power.)
"""

import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import zstandard

from manifests import archive, bundle, tree
from tests.support.simulator import (
    ENVIRONMENT,
    Content,
    Simulator,
    archive_of,
    entries,
    sha256,
)
from tests.support.small import environment

#: Bytes of a block in a large bundle.
BLOCK = 16 << 10
PLACEHOLDER = "/placeholder/that/is/long/enough/for/every/test/prefix"
VOLATILE = f"#!{PLACEHOLDER}/bin/python\n".encode() * 50
#: What conda-unpack does, in the shell that stands in for its Python: in place.
UNPACK = rb"""#!/bin/sh
# $1 to $3 are -E -s -B, $4 is bin/conda-unpack
root=${4%/bin/conda-unpack}
text=$(sed "s|PLACEHOLDER|$root|g" "$root/bin/tool")
printf '%s\n' "$text" >"$root/bin/tool"
"""

#: Imports once, then forks for each line "STEP WORD…" (tabs in between) that it reads; answers
#: "STATUS STEPS READ", the last the bytes that were taken from the source. A negative step is
#: struck by SIGINT.
_FORKS = """
import os, signal, sys
from manifests.errors import BundleError
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod",
           "os.truncate", "shutil.rmtree", "subprocess.Popen", "fcntl.flock"}
errors = sys.argv[1]

class Run:
    def __init__(self, step):
        self.step, self.count, self.read = step, 0, 0

    def strike(self, file=None):
        self.count += 1
        if self.count == -self.step:
            os.kill(os.getpid(), signal.SIGINT)
        if self.count == self.step:
            if isinstance(file, int) and os.path.isfile(f"/proc/self/fd/{file}"):
                os.ftruncate(file, max(0, os.fstat(file).st_size - 3))
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(self, event, arguments):
        writes = event in CHANGES
        if event == "open" and isinstance(arguments[2], int):
            writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes:
            self.strike()

    def __call__(self, action, words, counted):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(2, 1)
        os.fsync = os.fdatasync = self.strike
        status = action(self, words)
        os.write(counted, b"%d %d" % (self.count, self.read))
        os._exit(status)

# The status that a command line ends with.
def status_of(work):
    try:
        work()
    except KeyboardInterrupt:
        return 130
    except BundleError as error:
        print(error.render())
        return int(error.exit_code)
    return 0

def serve(action):
    for line in sys.stdin:
        step, *words = line.rstrip().split("\t")
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            Run(int(step))(action, words, writing)
        os.close(writing)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status, os.read(reading, 40).decode() or "0 0", flush=True)
        os.close(reading)
"""
#: Words: PREFIX [WORD…]. BLOCK is that of `bundlectl.blocks`; chunks are a quarter of it.
_INSTALLS = """
from bundlectl import blocks, extract, install as install_module, readahead, taking, unpack
from bundlectl.cli import main
from manifests.medium import ArchiveStream
folder, digest, block = sys.argv[2:]
if int(block):
    blocks.BLOCK = int(block)
    extract.CHUNK = readahead.CHUNK = int(block) // 4
MEDIA = ["--media", folder, "--manifest", digest]
INSTALL = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc"]

def install(run, words):
    def readinto(stream, buffer, call=ArchiveStream.readinto):
        size = call(stream, buffer)
        run.read += size
        return size
    ArchiveStream.readinto = readinto
    install_module.sync = taking.sync = unpack.sync = run.strike
    prefix, *words = words
    command = [] if words[:1] == ["repair"] else INSTALL
    sys.addaudithook(run.hook)
    return main([*command, *words, *MEDIA, "--prefix", prefix])

serve(install)
"""
#: Words: OUTPUT VOLUME_SIZE SEED. Members come in pieces, and before each of these is a step.
_WRITES = """
from pathlib import Path
from bundler import media
from manifests import newfolder
from tests.support import killing

def write(run, words):
    output, volume_size, seed = Path(words[0]), int(words[1]), int(words[2])
    simulator = killing.large(seed)
    def opener(data):
        def pieces(start):
            for begin in range(start, len(data), 7000):
                run.strike()
                piece = memoryview(data)[begin : begin + 7000]
                run.read += len(piece)
                yield piece
        return pieces
    manifest = simulator.manifest()
    contents = {path: opener(data) for path, data in simulator.contents().items()}
    sys.addaudithook(run.hook)
    folder, quiet = output / manifest.name, lambda count: None
    return status_of(lambda: media.write(folder, manifest, contents, quiet, volume_size))

serve(write)
"""


def large(seed: int = 1) -> Simulator:
    """A bundle with two shards and an environment of several blocks of BLOCK bytes each."""
    noise = random.Random(seed)
    content = ENVIRONMENT | {f"lib/part{n}.so": noise.randbytes(BLOCK + 9 * n) for n in range(5)}
    content["lib/part4.so.1"] = "part4.so"
    shards = {f"{name}.safetensors": noise.randbytes(5 * BLOCK + 1) for name in ("one", "two")}
    model = {"config.json": b"{}", "empty.txt": b"", **shards}
    return Simulator(environment=content, model=model, environment_archive=in_frames(content))


def make(output: Path, *, is_large: bool = False, volume_size: int = 0) -> tuple[Path, str]:
    """The bundle: several members, a volatile file, folders in folders.

    One that `is_large` has files and an environment of several blocks of BLOCK bytes.
    """
    unpack = UNPACK.replace(b"PLACEHOLDER", PLACEHOLDER.encode())
    simulator = large() if is_large else Simulator(environment=ENVIRONMENT)
    content = {**simulator.environment, "bin/python": unpack, "bin/tool": VOLATILE}
    simulator.environment = content
    if is_large:
        simulator.environment_archive = in_frames(content)
    listed = [
        dataclasses.replace(entry, rewrite=tree.Rewrite(PLACEHOLDER, "text"))
        if entry.path == "bin/tool"
        else entry
        for entry in entries(content)
    ]
    manifest = dataclasses.replace(simulator.manifest(), environment=tuple(listed))
    assert sha256(VOLATILE) == next(e.sha256 for e in listed if e.path == "bin/tool")
    return simulator.write(output, manifest, volume_size)


def in_frames(content: Content) -> bytes:
    """The packed tree with a zstd frame for each BLOCK bytes or more, as `bundler.pack` writes."""
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    frames, plain, whole = [], b"", archive_of(content)
    start = 0
    for entry in entries(content):
        size = len(archive.entry_header(entry)) + entry.size + len(archive.padding(entry.size))
        plain += whole[start : start + size]
        start += size
        if len(plain) >= BLOCK:
            frames.append(compressor.compress(plain))
            plain = b""
    return b"".join([*frames, compressor.compress(plain + whole[start:])])


class Forked:
    """Does one thing as often as wanted. Close it."""

    def __init__(self, script: str, errors: Path, *words: str) -> None:
        self.errors = errors
        self.read = 0  # bytes that the last run took from its source
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", _FORKS + script, str(errors), *words],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, step: int, *words: str) -> tuple[int, int]:
        """Exit status, and the number of steps of a whole run; killed before `step` if not 0.

        A negative step is interrupted (SIGINT).
        """
        self.process.stdin.write("\t".join((str(step), *words)) + "\n")
        self.process.stdin.flush()
        status, count, read = self.process.stdout.readline().split()
        self.read = int(read)
        return int(status), int(count)

    def told(self) -> str:
        """What the last run said."""
        return self.errors.read_text()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Host(Forked):
    """Installs one bundle."""

    def __init__(self, media: tuple[Path, str], errors: Path, block: int = 0) -> None:
        super().__init__(_INSTALLS, errors, str(media[0]), media[1], str(block))

    def install(self, prefix: Path, step: int = 0, words: tuple[str, ...] = ()) -> tuple[int, int]:
        """As `run`. `words` that begin with `repair` are another command than `install`."""
        return self.run(step, str(prefix), *words)


class Writer(Forked):
    """Writes the bundle that is `large` for a seed."""

    def __init__(self, errors: Path) -> None:
        super().__init__(_WRITES, errors)

    def write(
        self, output: Path, step: int = 0, volume_size: int = 0, seed: int = 1
    ) -> tuple[int, int]:
        """As `run`."""
        return self.run(step, str(output), str(volume_size), str(seed))


def release_of(media: tuple[Path, str]) -> str:
    return bundle.release_id(media[0].name, media[1])
