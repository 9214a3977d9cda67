"""Running a build without a network, so that nothing that survives us can be left behind.

util-linux's `unshare` (https://man7.org/linux/man-pages/man1/unshare.1.html) gives the build a
network namespace with not even loopback up, and a process namespace: when its first process dies,
the kernel ends every other one, so no compiler writes on after a kill of this program.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from pathlib import Path

from manifests.errors import UsageError

_UNSHARE = ("--net", "--pid", "--fork", "--kill-child=KILL")
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def isolated(root: bool = os.geteuid() == 0) -> tuple[str, ...]:
    """The start of a command that runs the rest without a network.

    Empty where namespaces can't be had and the machine has no way out anyhow. Raises UsageError
    where it has one: a build script that could fetch code is not run.
    """
    unshare = shutil.which("unshare", path=os.defpath)
    if unshare is not None:
        command = (unshare, *(() if root else ("--user", "--map-root-user")), *_UNSHARE, "--")
        probe = subprocess.run([*command, "true"], capture_output=True, check=False)
        if probe.returncode == 0:
            return command
    if not has_routes():
        return ()
    raise UsageError(
        "the build can't be cut off from the network",
        why="this machine lets us make no network namespace"
        if unshare
        else "the program `unshare` (util-linux) is missing",
        mend="run as root, allow user namespaces (in a container: --cap-add SYS_ADMIN), "
        "or repeat the command with --offline on a machine without a network",
    )


def has_routes(root: Path = Path("/proc/net")) -> bool:
    """Whether any address beyond this machine can be reached: routes other than loopback's."""
    return any(
        _via(root / name, interface) for name, interface in (("route", 0), ("ipv6_route", -1))
    )


def dies_with_us() -> None:
    """Called in the child before it starts: it is killed when this program dies, also by -9."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _via(table: Path, column: int) -> bool:
    try:
        lines = table.read_text("ascii").splitlines()
    except OSError:
        return False
    interfaces = {line.split()[column] for line in lines if line.strip()}
    return bool(interfaces - {"lo", "Iface"})
