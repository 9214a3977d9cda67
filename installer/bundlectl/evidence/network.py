"""What addresses, names and ports say for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl.scene import Scene
from manifests.doctor import Answer

_UNKNOWN = Answer(None)


def _proxy_set(scene: Scene) -> Answer:
    names = [name for name in scene.host.environment if name.lower().endswith("_proxy")]
    proxies = sorted(name for name in names if name.lower() != "no_proxy")
    return Answer(bool(proxies), f"set where this runs: {', '.join(proxies) or 'none'}")


def _port_taken(scene: Scene) -> Answer:
    if scene.held:
        return Answer(None, "the front of this installation holds it")
    network = scene.host.network
    if not network.port_problem:
        return Answer(False, "it can be listened on now")
    return Answer(True, f"{network.port_problem} {network.port_holder}".strip())


def _port_privileged(scene: Scene) -> Answer:
    if scene.needs is None:
        return _UNKNOWN
    port, uid = scene.needs.port, scene.host.account.uid
    return Answer(0 < port < 1024 and uid != 0, f"port {port}, uid {uid}")


def _loopback_down(scene: Scene) -> Answer:
    up = scene.host.network.loopback
    return Answer(not up, f"loopback is {'up' if up else 'down'}")


def _no_route(scene: Scene) -> Answer:
    there = scene.default_route
    return Answer(not there, f"there is {'a' if there else 'no'} default route")


def _hostname_unresolved(scene: Scene) -> Answer:
    name = scene.host.network.host_name
    addresses = scene.host.network.hosts.get(name.lower(), ())
    found = (
        f"{name} is {', '.join(addresses)} in /etc/hosts"
        if addresses
        else (f"{name} is not in /etc/hosts")
    )
    return Answer(not addresses, found)


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "proxy-set": _proxy_set,
    "port-taken": _port_taken,
    "port-privileged": _port_privileged,
    "loopback-down": _loopback_down,
    "no-route": _no_route,
    "hostname-unresolved": _hostname_unresolved,
}
