"""Attempts to reach anything outside, counted by the kernel of a network namespace.

The namespace has a loopback interface and no route. Whatever asks for a way out (TCP, or UDP that
is sent or only connected, by Python or by C++) fails at the route, and the kernel counts it: `Ip
OutNoRoutes` in /proc/net/snmp (net/ipv4/tcp_ipv4.c, datagram.c, udp.c) and `Ip6OutNoRoutes` in
/proc/net/snmp6. A look-up of a name that goes to a resolver on the loopback finds no listener and
is counted in `Udp NoPorts`. No packet has to leave for that, and none can.
"""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

#: Addresses for documentation (RFC 5737, RFC 3849): nobody is there, should there be a way.
PUBLIC, PUBLIC_6 = ("192.0.2.1", 9), ("2001:db8::1", 9)
COUNTERS = ("Ip.OutNoRoutes", "Ip6.OutNoRoutes", "Udp.NoPorts", "Udp6.NoPorts")


def counters(net: Path = Path("/proc/self/net")) -> dict[str, int]:
    """The counters of this process's namespace, by the names in COUNTERS."""
    found = snmp((net / "snmp").read_text())
    with contextlib.suppress(OSError):
        found |= snmp6((net / "snmp6").read_text())
    return {name: found.get(name, 0) for name in COUNTERS}


def snmp(text: str) -> dict[str, int]:
    """`Ip: Name Name` and `Ip: 1 2`, in pairs of lines → Ip.Name."""
    lines = [line.split() for line in text.splitlines()]
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group = names[0].rstrip(":")
        found |= {f"{group}.{n}": int(v) for n, v in zip(names[1:], values[1:], strict=False)}
    return found


def snmp6(text: str) -> dict[str, int]:
    """`Ip6OutNoRoutes 1` → Ip6.OutNoRoutes."""
    pairs = (line.split() for line in text.splitlines())
    return {_dotted(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def _dotted(name: str) -> str:
    head, six, rest = name.partition("6")
    return f"{head}{six}.{rest}"


def between(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What was counted, and the sum as `attempts`."""
    found = {name: after[name] - before[name] for name in COUNTERS}
    return {"attempts": sum(found.values()), **found}


def control() -> dict[str, dict[str, int]]:
    """The positive control: four deliberate attempts, and what each of them added."""
    attempts: dict[str, Callable[[], object]] = {
        "tcp connect": lambda: _try(socket.AF_INET, socket.SOCK_STREAM, PUBLIC),
        "udp connect": lambda: _try(socket.AF_INET, socket.SOCK_DGRAM, PUBLIC),
        "udp connect, IPv6": lambda: _try(socket.AF_INET6, socket.SOCK_DGRAM, PUBLIC_6),
        "name": lambda: socket.getaddrinfo("a-name.invalid", 80),
    }
    found = {}
    for name, attempt in attempts.items():
        before = counters()
        with contextlib.suppress(OSError):
            attempt()
        found[name] = between(before, counters())
    return found


def _try(family: int, kind: int, address: tuple[str, int]) -> None:
    with socket.socket(family, kind) as handle:
        handle.settimeout(2)
        handle.connect(address)
