"""The loopback interface, the server's port, and this machine's own name; no packet is sent."""

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bundlectl.host.reading import names, text

#: TCP_LISTEN in the kernel's include/net/tcp_states.h, as /proc/net/tcp writes it.
_LISTENING = "0A"


@dataclass(frozen=True)
class Network:
    """What preflight asks of the network."""

    loopback: bool = True
    port_problem: str = ""  # why host:port can't be listened on
    port_holder: str = ""  # who listens there, "pid 12 (nginx)"; empty where that can't be seen
    outgoing_ports: tuple[int, int] = (32768, 60999)  # first and last that connections are given
    host_name: str = ""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # /etc/hosts: name → IPs
    addresses: frozenset[str] = frozenset()  # this machine's own, IPv4; empty: not known


def read_network(host: str, port: int) -> Network:
    """Look at this machine's network; `port` 0 leaves the port out."""
    problem = port_problem(host, port) if port else ""
    first, _, last = " ".join(text("/proc/sys/net/ipv4/ip_local_port_range").split()).partition(" ")
    known = first.isdecimal() and last.isdecimal()
    return Network(
        loopback=_loopback(),
        port_problem=problem,
        port_holder=listener(port) if problem else "",
        outgoing_ports=(int(first), int(last)) if known else Network.outgoing_ports,
        host_name=socket.gethostname(),
        hosts=hosts(text("/etc/hosts")),
        addresses=frozenset(own_addresses(text("/proc/net/fib_trie"))),
    )


def hosts(lines: str) -> dict[str, tuple[str, ...]]:
    """The names in /etc/hosts (hosts(5)), lower case, and the addresses of each."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines.splitlines():
        address, *aliases = line.partition("#")[0].split() or [""]
        for name in aliases:
            found[name.lower()] = (*found.get(name.lower(), ()), address)
    return found


def own_addresses(trie: str) -> Iterator[str]:
    """The IPv4 addresses in /proc/net/fib_trie: a leaf whose next line ends in `/32 host LOCAL`."""
    leaf = ""
    for line in trie.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            leaf = words[-1]
        elif words == ["/32", "host", "LOCAL"]:
            yield leaf


def is_local(address: str, own: frozenset[str]) -> bool:
    """Whether an address leads back to this machine; true where that can't be told."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed.is_loopback or address in own:
        return True
    return parsed.version == 6 or not own


def listener(port: int, proc: Path = Path("/proc")) -> str:
    """Who listens on a TCP port: found by the socket's inode (proc(5): net/tcp, pid/fd)."""
    wanted = f"{port:04X}"
    sockets = set()
    for table in ("net/tcp", "net/tcp6"):
        for line in text(proc / table).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTENING and words[1].endswith(f":{wanted}"):
                sockets.add(f"socket:[{words[9]}]")
    if not sockets:
        return ""
    for pid in filter(str.isdecimal, names(proc)):
        for handle in names(proc / pid / "fd"):
            try:
                target = str((proc / pid / "fd" / handle).readlink())
            except OSError:
                continue
            if target in sockets:
                return f"pid {pid} ({text(proc / pid / 'comm').strip()})"
    return ""


def port_problem(host: str, port: int) -> str:
    """Why a server can't listen there; empty where it can."""
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listening:
            # As servers do: connections of an earlier server that still time out do no harm.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address, port))
            listening.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _loopback() -> bool:
    # Connecting a datagram socket sends nothing; without the interface there is no route.
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 9))
    except OSError:
        return False
    return True
