"""What a build would be, said before anything is fetched."""

from dataclasses import dataclass

from manifests.console import size
from wheelhouse.flashattn import resources
from wheelhouse.flashattn.architectures import archs
from wheelhouse.flashattn.tables import tables


@dataclass(frozen=True)
class Outlook:
    """A build as the plan shows it."""

    version: str
    archs: str  # FLASH_ATTN_CUDA_ARCHS
    explanation: str  # why these
    units: int  # translation units
    jobs: int  # at once
    memory: int  # bytes at the peak
    seconds: int  # about

    def text(self) -> str:
        """One line of the plan."""
        return (
            f"flash-attn {self.version}: {self.explanation}; {self.units} units, {self.jobs} at "
            f"once in up to {size(self.memory)} of memory, about {_minutes(self.seconds)}"
        )


def outlook(version: str, gpus: tuple[str, ...], machine: resources.Machine) -> Outlook:
    """What building a release for some GPUs would take on a machine.

    Raises TargetError for GPUs that it can't serve, UsageError for unknown releases and where the
    memory does not do.
    """
    units = tables().release(version).units
    value, explanation = archs(gpus)
    parallel = resources.jobs(machine)
    return Outlook(
        version=version,
        archs=value,
        explanation=explanation,
        units=units,
        jobs=parallel,
        memory=parallel * tables().cost.memory,
        seconds=resources.seconds(units, len(value.split(";")), parallel),
    )


def _minutes(seconds: int) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
