"""What stops a bundle before it is written: GPU code and libraries that the target can't use.

The environment's files are asked, not the tables that promised something about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bundler.building import Packed
from manifests import gpu
from manifests.errors import TargetError
from manifests.kernels import Finding, absent, coverage, gate
from manifests.lock import Target
from manifests.stack import Component, Stack
from wheelhouse import elf


@dataclass(frozen=True)
class Passed:
    """What an environment was found to be good for."""

    gpus: tuple[str, ...]  # capabilities for which every needed library has code
    notes: tuple[str, ...]  # a sentence each


@dataclass(frozen=True)
class Beneath:
    """What of the host's own environment a bundle relies on, and can't look into."""

    distributions: frozenset[str] = frozenset()  # normalised names
    libraries: frozenset[str] = frozenset()  # names of shared libraries


NOTHING = Beneath()


def check(
    serving: Packed, runtime: Packed, stack: Stack, target: Target, beneath: Beneath = NOTHING
) -> Passed:
    """Hold both environments against the target.

    Raises TargetError naming each library that would not load, or would find no code for a GPU.
    """
    notes: list[str] = []
    none = frozenset[str]()
    for packed, winning, there in (
        (serving, stack.winning_libraries, beneath.libraries),
        (runtime, (), none),
    ):
        judgement = elf.judge(packed.elf, glibc=target.glibc, winning=winning, beneath=there)
        elf.require(judgement)
        notes += [finding.text() for finding in judgement.notes]
    if target.gpus == (gpu.CPU,):
        return Passed(target.gpus, tuple(notes))
    components = tuple(c for c in stack.components if c.wheel not in beneath.distributions)
    notes += [
        f"{component.name} ({component.wheel}): the host's own, whose GPU code was not read"
        for component in stack.components
        if component not in components
    ]
    findings = _kernels(serving, components, target.gpus, target.driver)
    errors = [finding.sentence for finding in findings if finding.error]
    if errors:
        raise TargetError(
            f"the environment has no code for {', '.join(target.gpus)} where it needs some",
            findings=errors,
            mend="choose another stack (`bundle stacks`), or wheels built for these GPUs",
        )
    notes += [finding.sentence for finding in findings]
    served = [one for one in stack.gpus if not _stopped(serving, components, one, target.driver)]
    return Passed(tuple(served), tuple(notes))


def _kernels(
    serving: Packed, components: Sequence[Component], gpus: tuple[str, ...], driver: str
) -> list[Finding]:
    found = coverage(serving.kernels, gpus, driver)
    return [*absent(found, components), *gate(found, components)]


def _stopped(serving: Packed, components: Sequence[Component], gpu_name: str, driver: str) -> bool:
    return any(finding.error for finding in _kernels(serving, components, (gpu_name,), driver))
