"""Run a command in a network namespace that has a loopback interface and nothing else.

    python without_network.py COMMAND…

Where the machine does not allow that (no user namespaces, a locked-down container), says so plainly
and runs the command with the network as it is. Standard library only; Linux.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys

#: linux/sockios.h and linux/if.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PUBLIC = ("192.0.2.1", 9)  # RFC 5737: an address for documentation; nothing is sent to it


def loopback_up() -> None:
    """What `ip link set lo up` does; a minimal host has no `ip`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def has_route() -> bool:
    """Whether anything outside could be reached; connecting UDP sends no packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            handle.connect(PUBLIC)
        except OSError:
            return False
        return True


def main() -> None:
    """Enter the namespace and become the command."""
    command = sys.argv[1:]
    if os.environ.get("_WITHOUT_NETWORK") == "1":
        loopback_up()
        print(f"network namespace: loopback only, route out: {has_route()}", flush=True)
        del os.environ["_WITHOUT_NETWORK"]
        os.execvp(command[0], command)
    print(f"before: route out: {has_route()}", flush=True)
    flags = ["-n"] if os.geteuid() == 0 else ["-r", "-n"]
    allowed = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False)
    if allowed.returncode == 0:
        again = [sys.executable, __file__, *command]
        os.environ["_WITHOUT_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", *flags, *again])
    reason = allowed.stderr.decode(errors="replace").strip()
    print(f"NOTE: this machine allows no network namespace ({reason});", flush=True)
    print("NOTE: what follows runs WITH the network as it is.", flush=True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
