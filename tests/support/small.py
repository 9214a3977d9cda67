"""A complete bundle in seconds: everything real but the server, which is `stub_vllm`."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bundler import tinymodel
from tests.support.index import wheel

ROOT = Path(__file__).resolve().parents[2]
STACK = """\
name = "small"
summary = "a stub in the place of vLLM"
gpus = ["cpu"]
python = ["3.11", "3.12", "3.13"]
glibc = "2.17"
cpu_flags = []
resolution_date = ""
architectures = ["Qwen3_5ForCausalLM"]
conda = ["libstdcxx", "libgcc", "ca-certificates"]
winning_libraries = ["libstdc++.so.6", "libgcc_s.so.1"]
runtime = ["zstandard==0.25.0", "tqdm"]
[server]
module = "stub_vllm"
parser = "stub_vllm"
[[flavours]]
name = "only"
summary = "the stub"
requirements = ["stub-vllm==1.0"]
"""


@dataclass(frozen=True)
class Workplace:
    """A connected machine's folders: a model, a stack, wheels, a cache."""

    root: Path
    channel: str = "host"
    kept: Path | None = None  # the cache, where it is not below the root

    @property
    def model(self) -> Path:
        return self.root / "tiny-qwen3.5"

    @property
    def stack(self) -> Path:
        return self.root / "small.toml"

    @property
    def links(self) -> Path:
        return self.root / "links"

    @property
    def cache(self) -> Path:
        return self.kept or self.root / "cache"

    def flags(self, **changes: str) -> list[str]:
        """The flags of a request for the small bundle; None leaves one out."""
        values: dict[str, str | None] = {
            "gpu": "cpu",
            "model": str(self.model),
            "channel": self.channel,
            "stack": str(self.stack),
            "find_links": str(self.links),
            "cache": str(self.cache),
        }
        values |= changes
        return [
            word
            for key, value in values.items()
            if value is not None
            for word in (f"--{key.replace('_', '-')}", value)
        ]

    def create(self, output: Path, *words: str, **changes: str) -> Path:
        """Make the small bundle; gives its folder."""
        done = bundle("create", *self.flags(**changes), "--output", str(output), *words)
        assert done.returncode == 0, done.stderr
        (folder,) = output.iterdir()
        return folder


def workplace(root: Path, channel: str = "host", stack: str = STACK) -> Workplace:
    """Make the folders."""
    place = Workplace(root, channel)
    tinymodel.make(place.model)
    place.stack.write_text(stack)
    place.links.mkdir()
    stub = (Path(__file__).parent / "stub_vllm.py").read_bytes()
    name, data = wheel("stub-vllm", "1.0", files={"stub_vllm.py": stub})
    (place.links / name).write_bytes(data)
    return place


def _in_memory() -> dict[str, str]:
    """A TMPDIR in memory, where there is one: each install.sh unpacks a runtime there, 80 MB."""
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK | os.X_OK):
        return {}
    found = os.statvfs(folder)
    fits = found.f_bavail * found.f_frsize > 1 << 30 and not found.f_flag & os.ST_NOEXEC
    return {"TMPDIR": str(folder)} if fits else {}


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, able to import the project's packages."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "installer")))
    # Hundreds of runs, and without bytecode each of them compiles the project.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": path, **changes}


def bundle(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `bundle` as a person would."""
    command = [sys.executable, "-c", "from bundler.cli import main; main()", *words]
    return subprocess.run(
        command, env=env or environment(), cwd=cwd, capture_output=True, text=True, check=False
    )


def install(
    folder: Path,
    *words: str,
    shell: tuple[str, ...] = ("sh",),
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run install.sh as a person would, in an environment that has no Python on PATH."""
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/")}
    clean |= _in_memory()
    command = [*shell, str(folder / "install.sh"), *words]
    return subprocess.run(
        command,
        env=dict(clean if env is None else env),
        capture_output=True,
        text=True,
        check=False,
    )


def control(prefix: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run an installation's bundlectl."""
    return subprocess.run(
        [str(prefix / "bin/bundlectl"), *words],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
