"""Become another program on a host as bare as the isolated one: no network, no compiler.

    unshare --net --mount -- python -I bare.py PROGRAM WORD…

Run as a file of its own in new namespaces, so it needs the standard library alone. Everything it
does ends with the last process of the namespace; outside, nothing changes.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

#: What a bare host lacks, also with a triplet or a version (x86_64-linux-gnu-gcc-13).
TOOLS = (
    *("cc", "gcc", "c++", "g++", "cpp", "c89", "c99", "clang", "clang++", "tcc", "zig"),
    *("as", "ld", "ld.bfd", "ld.gold", "ld.lld", "lld", "make", "ninja", "cmake", "meson"),
    *("nvcc", "ptxas", "cicc", "cudafe++", "fatbinary", "nvlink"),
)
FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/local/cuda/bin", "/opt/gcc/bin")
#: One program under many names: hiding it would hide everything.
_SHARED = ("busybox", "coreutils")
#: ioctl SIOCSIFFLAGS with IFF_UP | IFF_RUNNING (netdevice(7)); `ip` may not be there.
_SIOCSIFFLAGS, _UP = 0x8914, 0x41
_MS_BIND = 4096  # mount(2)


def is_tool(name: str) -> bool:
    """Whether a program's name is a tool's: gcc, gcc-13, x86_64-linux-gnu-gcc-13."""
    name = name.removeprefix("x86_64-linux-gnu-")
    head, _, version = name.rpartition("-")
    return name in TOOLS or (head in TOOLS and version.replace(".", "").isdigit())


def tools(folders: Iterable[Path]) -> Iterator[Path]:
    """The real files of the tools in some folders; those that are not there have none."""
    for folder in folders:
        if folder.is_dir():
            yield from real(file for file in folder.iterdir() if is_tool(file.name))


def real(files: Iterable[Path]) -> Iterator[Path]:
    """What the files are in the end, without links, where hiding it hides nothing else."""
    for file in files:
        found = file.resolve()
        if found.is_file() and found.name not in _SHARED:
            yield found


def hide(files: Iterable[Path]) -> None:
    """Bind /dev/null over files. Raises OSError where this namespace does not let us."""
    libc = ctypes.CDLL(None, use_errno=True)
    for file in files:
        if libc.mount(b"/dev/null", os.fsencode(file), None, _MS_BIND, None) != 0:
            raise OSError(ctypes.get_errno(), "binding /dev/null", str(file))


def loopback_up() -> None:
    """What `ip link set lo up` does: in a new namespace it is down, and engines talk over it."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _UP))


def main() -> None:
    """Make the namespace bare and become the program."""
    loopback_up()
    hide(sorted(set(tools(map(Path, FOLDERS)))))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - that is what it is for


if __name__ == "__main__":
    main()
