"""Minimal hosts to install on: a folder with its own /proc, /dev and /tmp, and no Python.

    with roots.busybox_root(folder, program) as root:
        root.mount(media, "/media/bundle")
        done = root.run(["sh", "/media/bundle/install.sh"])

Everything runs in namespaces of its own (mounts, processes, and a network that is only loopback),
so that mounts and servers vanish with the last process, whatever happens to the test.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: What a Debian is made from is asked for once; later runs unpack this file.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-bundle-tests"
_SUITE = "bookworm"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Raises the loopback interface; neither root has a program for that.
_LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
    request = struct.pack("16sh14x", b"lo", 0)
    flags = struct.unpack("16sh14x", fcntl.ioctl(handle, 0x8913, request))[1]
    fcntl.ioctl(handle, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
"""


@dataclass
class Root:
    """A folder that is the whole world of the programs run in it.

    One sleeping process holds the namespaces; when `stop` ends it, the kernel ends all others.
    """

    folder: Path
    path: str = "/usr/sbin:/usr/bin:/sbin:/bin"
    _holder: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def start(self) -> None:
        for name in ("proc", "dev", "tmp", "root", "opt", "media", "etc"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "tmp").chmod(0o1777)
        script = f"""
set -e
cd '{self.folder}'
mount --bind . .
cd '{self.folder}'
mount -t proc proc proc
mount -t tmpfs -o mode=755 dev dev
for name in {" ".join(_DEVICES)}; do : >dev/$name; mount --bind /dev/$name dev/$name; done
mkdir -m 1777 dev/shm
mount -t tmpfs -o mode=1777 shm dev/shm
'{sys.executable}' -c '{_LOOPBACK}'
echo ready
exec sleep 7200
"""
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            _, told = self._holder.communicate()
            pytest.skip(f"this machine does not let root make namespaces: {told.decode().strip()}")

    def stop(self) -> None:
        if self._holder is not None:
            # --kill-child: the first process of the namespace goes, and the kernel ends the rest.
            self._holder.kill()
            self._holder.communicate()

    def _enter(self, network: bool) -> list[str]:
        assert self._holder is not None
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text()
        kinds = ["--mount", "--pid", *([] if network else ["--net"])]
        return ["nsenter", "--target", children.split()[0], *kinds]

    def mount(self, source: Path, target: str) -> None:
        """Show a folder of this machine inside, read-only."""
        place = self.folder / target.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        script = 'mount --bind "$1" "$2" && mount -o remount,ro,bind "$2"'
        command = [*self._enter(network=True), "sh", "-c", script, "sh", str(source), str(place)]
        subprocess.run(command, check=True)

    def run(
        self, argv: Sequence[str], network: bool = False, timeout: float = 600, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program inside; with `network`, with this machine's network."""
        variables = {"PATH": self.path, "HOME": "/root", **env}
        words = [f"{name}={value}" for name, value in variables.items()]
        command = [*self._enter(network), "chroot", str(self.folder), *_env_of(self), *words, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def _env_of(root: Root) -> list[str]:
    program = "/usr/bin/env" if (root.folder / "usr/bin/env").exists() else "/bin/env"
    return [program, "-i"]


@contextmanager
def _started(root: Root) -> Iterator[Root]:
    try:
        root.start()
        yield root
    finally:
        root.stop()


def require(*programs: str) -> None:
    """Skip the test where root or a program is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if os.geteuid() != 0:
        pytest.skip("making a root needs root")
    if missing:
        pytest.skip(f"this machine lacks {', '.join(missing)}")


@contextmanager
def busybox_root(folder: Path) -> Iterator[Root]:
    """BusyBox, glibc's few files, and nothing else."""
    require("busybox", "unshare", "nsenter", "chroot")
    busybox = Path(str(shutil.which("busybox"))).resolve()
    for name in ("bin", "usr/bin", "lib64", "lib"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for name in applets():
        (folder / "bin" / name).symlink_to("busybox")
    _copy_glibc(folder)
    with _started(Root(folder, path="/bin")) as root:
        if root.run(["/bin/true"]).returncode:
            pytest.skip(f"{busybox} is not linked statically")
        yield root


def applets() -> list[str]:
    """Names of the programs that this machine's BusyBox can be."""
    done = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name != "busybox"]


def _copy_glibc(folder: Path) -> None:
    """The loader and the libraries of glibc itself, and no other."""
    names = ("libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv")
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    home = Path(os.path.realpath(loader)).parent
    shutil.copy(loader, folder / "lib64" / loader.name)
    for name in names:
        for path in home.glob(f"{name}.so.[0-9]*"):
            shutil.copy(path, folder / "lib" / path.name)


@contextmanager
def debian_root(folder: Path) -> Iterator[Root]:
    """A debootstrap minbase from the configured mirror."""
    require("debootstrap", "unshare", "nsenter", "chroot", "tar")
    _CACHE.mkdir(parents=True, exist_ok=True)
    packed = _CACHE / f"{_SUITE}-minbase.tar"
    if not packed.exists():
        with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
            target = Path(scratch) / "root"
            command = ["debootstrap", "--variant=minbase", _SUITE, str(target), *_mirror()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"debootstrap: {(done.stdout + done.stderr).strip()[-300:]}")
            draft = Path(scratch) / "root.tar"
            subprocess.run(["tar", "-C", str(target), "-cf", str(draft), "."], check=True)
            draft.rename(packed)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", str(folder), "-xpf", str(packed)], check=True)
    with _started(Root(folder)) as root:
        yield root


def _mirror() -> list[str]:
    """The mirror that this machine's apt uses; debootstrap's own default where it names none."""
    folder = Path("/etc/apt")
    for path in (*folder.glob("sources.list.d/*.sources"), *folder.glob("**/*.list")):
        for line in path.read_text("utf-8", "replace").splitlines():
            found = re.match(r"(?:URIs:|deb (?:\[.*\] )?)\s*(\S+/debian/?)(?:\s|$)", line)
            if found:
                return [found[1]]
    return []
