"""What stops a bundle before it is written: GPU code and libraries that the target can't use.

The environment's files are asked, not the tables that promised something about them.
"""

from dataclasses import dataclass

from bundler.building import Packed
from manifests import gpu
from manifests.errors import TargetError
from manifests.kernels import Finding, absent, coverage, gate
from manifests.lock import Target
from manifests.stack import Stack
from wheelhouse import elf


@dataclass(frozen=True)
class Passed:
    """What an environment was found to be good for."""

    gpus: tuple[str, ...]  # capabilities for which every needed library has code
    notes: tuple[str, ...]  # a sentence each


def check(serving: Packed, runtime: Packed, stack: Stack, target: Target) -> Passed:
    """Hold both environments against the target.

    Raises TargetError naming each library that would not load, or would find no code for a GPU.
    """
    notes: list[str] = []
    for packed, winning in ((serving, stack.winning_libraries), (runtime, ())):
        judgement = elf.judge(packed.elf, glibc=target.glibc, winning=winning)
        elf.require(judgement)
        notes += [finding.text() for finding in judgement.notes]
    if target.gpus == (gpu.CPU,):
        return Passed(target.gpus, tuple(notes))
    findings = _kernels(serving, stack, target.gpus, target.driver)
    errors = [finding.sentence for finding in findings if finding.error]
    if errors:
        raise TargetError(
            f"the environment has no code for {', '.join(target.gpus)} where it needs some",
            findings=errors,
            mend="choose another stack (`bundle stacks`), or wheels built for these GPUs",
        )
    notes += [finding.sentence for finding in findings]
    served = [one for one in stack.gpus if not _stopped(serving, stack, one, target.driver)]
    return Passed(tuple(served), tuple(notes))


def _kernels(serving: Packed, stack: Stack, gpus: tuple[str, ...], driver: str) -> list[Finding]:
    found = coverage(serving.kernels, gpus, driver)
    return [*absent(found, stack.components), *gate(found, stack.components)]


def _stopped(serving: Packed, stack: Stack, gpu_name: str, driver: str) -> bool:
    return any(finding.error for finding in _kernels(serving, stack, (gpu_name,), driver))
