"""What a host says for or against the rules of doctor: one pure function for each probe.

The probes themselves, with the command that shows a person the same, are manifests/doctor's data.
"""

from collections.abc import Callable, Mapping, Sequence

from bundlectl.evidence import base, gpus, network, programs, storage, system
from bundlectl.scene import Scene
from manifests.doctor import Answer

PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    **gpus.PROBES,
    **storage.PROBES,
    **system.PROBES,
    **programs.PROBES,
    **network.PROBES,
    **base.PROBES,
}


def answers(scene: Scene, names: Sequence[str]) -> dict[str, Answer]:
    """What a host says to each of these probes."""
    return {name: PROBES[name](scene) for name in names}
