"""What the environment below an overlay says for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl import preflight
from bundlectl.checks import base
from bundlectl.scene import Scene
from manifests.doctor import Answer


def _failing(name: str) -> Callable[[Scene], Answer]:
    """Whether a check of preflight fails; not known where no overlay is installed."""
    checks = [check for check in base.CHECKS if check.name == name]

    def answer(scene: Scene) -> Answer:
        if scene.needs is None or scene.needs.overlay is None:
            return Answer(None)
        (found,) = preflight.examine(scene.needs, scene.host, checks=checks)
        return Answer(not found.passed, found.found)

    return answer


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "base-python-wrong": _failing("base-python"),
    "base-changed": _failing("base-environment"),
}
