"""Checks of the network: nothing but the loopback interface is needed."""

from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict, listed
from bundlectl.host import Host
from bundlectl.host.network import is_local

_FIRST_UNPRIVILEGED = 1024


def _port(needs: Needs, host: Host) -> Verdict:
    if not needs.port:
        return Verdict(True, "not asked for")
    problem, holder = host.network.port_problem, host.network.port_holder
    by = f", by {holder}" if holder else ""
    mend = "stop what listens there, or set another port (--port, or port in etc/serve.toml)"
    if needs.port < _FIRST_UNPRIVILEGED and not holder:
        mend = f"set a port from {_FIRST_UNPRIVILEGED} on, or run as root"
    return Verdict(not problem, f"{needs.host}:{needs.port}: {problem or 'free'}{by}", "", mend)


def _outgoing(needs: Needs, host: Host) -> Verdict:
    first, last = host.network.outgoing_ports
    inside = bool(needs.port) and first <= needs.port <= last
    return Verdict(
        not inside,
        f"{needs.port or 'no port'}; connections of this machine get {first} to {last}",
        "a port that no connection can take by chance" if inside else "",
    )


def _loopback(_needs: Needs, host: Host) -> Verdict:
    up = host.network.loopback
    return Verdict(up, "up" if up else "127.0.0.1 can't be reached: the interface lo is down")


def _localhost(_needs: Needs, host: Host) -> Verdict:
    known = host.network.hosts.get("localhost", ())
    return Verdict(
        "127.0.0.1" in known,
        f"/etc/hosts: {listed(known)}" if known else "/etc/hosts does not name it",
        "127.0.0.1",
    )


def _host_name(_needs: Needs, host: Host) -> Verdict:
    name = host.network.host_name
    known = host.network.hosts.get(name.lower(), ())
    away = [address for address in known if not is_local(address, host.network.addresses)]
    if name.replace(".", "").isdecimal():
        wrong = ": a number, which programs take for an address"
    elif away:
        wrong = f": /etc/hosts gives {listed(tuple(away))}, which is not this machine"
    elif not known:
        wrong = " is not in /etc/hosts, and was not looked up anywhere else"
    else:
        return Verdict(True, f"{name}: {listed(known)} (/etc/hosts)")
    return Verdict(False, f"{name or 'none'}{wrong}; the server is told to use 127.0.0.1")


CHECKS = (
    Check("port", STOP, "whether the server's port is free, and who has it", _port,
          at_start=True),
    Check("loopback", STOP, "the interface lo", _loopback, "run: ip link set lo up",
          at_start=True),
    Check("localhost", WARN, "what the name localhost leads to", _localhost,
          "add to /etc/hosts: 127.0.0.1 localhost"),
    Check("outgoing-ports", INFO, "whether a connection can take the server's port", _outgoing,
          "set another port, or run: sysctl net.ipv4.ip_local_reserved_ports=PORT"),
    Check("host-name", INFO, "what this machine's name leads to", _host_name, "nothing to do"),
)  # fmt: skip
