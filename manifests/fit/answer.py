"""The answer: whether a model fits, how long a request may be, how many are served at a time."""

from dataclasses import dataclass
from typing import Any

from manifests.console import size
from manifests.records import to_data


@dataclass(frozen=True)
class Load:
    """How many requests of one length are served at a time."""

    tokens: int
    requests: int


@dataclass(frozen=True)
class Room:
    """How the memory of each GPU in use is divided, in bytes; without a GPU, the host's."""

    gpu_memory: int  # as nvidia-smi counts it
    gpus: int  # that are there
    utilization: int  # per cent of a GPU for the server
    tensor_parallel: int  # GPUs in use
    usable: int
    weights: int
    overhead: int  # an estimate
    cache: int  # what is left; below 0 where something is missing


@dataclass(frozen=True)
class Fit:
    """The answer. Sizes in bytes, on each of the GPUs in use."""

    room: Room
    token_bytes: int  # cache for each further token of a request
    request_bytes: int  # cache for a request, whatever its length
    block: int  # tokens that share a block: prefix caching works by these
    limit: int  # tokens of the longest request that the model allows
    longest: int  # tokens of the longest request that fits
    max_model_len: int  # suggested, or as asked where that fits; 0 where it doesn't fit
    sequences: int = 0  # most requests at a time, where vLLM's default would be too many; 0: not so
    loads: tuple[Load, ...] = ()
    refusal: tuple[str, ...] = ()  # why it doesn't fit, a sentence each
    alternatives: tuple[str, ...] = ()  # what would fit, a sentence each

    @property
    def fits(self) -> bool:
        """Whether the model can be served as asked."""
        return not self.refusal

    def as_record(self) -> dict[str, Any]:
        """The answer as --json prints it."""
        return {"loads": [], "refusal": [], "alternatives": [], **to_data(self), "fits": self.fits}

    def text(self) -> str:
        """The answer in one line where it fits, else with the reasons and what would fit."""
        room = self.room
        parts = f"weights {size(room.weights)} + {size(room.overhead)} overhead"
        of = f"of {size(room.usable)} ({room.utilization} % of {self._memory()})"
        if not self.fits:
            return "\n".join([f"{parts} {of}: does not fit", *self.refusal, *self.alternatives])
        served = [f"{load.requests} of {load.tokens}" for load in self.loads if load.requests]
        return (
            f"{parts} + {size(room.cache)} cache {of}: fits, max_model_len {self.max_model_len}"
            + (f"; at a time: {', '.join(served)} tokens" if served else "")
        )

    def _memory(self) -> str:
        room = self.room
        if room.gpus == 1:
            return size(room.gpu_memory)
        used = f"{room.tensor_parallel} of {room.gpus} GPUs" if self._idle else f"{room.gpus} GPUs"
        return f"each of {used} of {size(room.gpu_memory)}"

    @property
    def _idle(self) -> bool:
        return self.room.tensor_parallel < self.room.gpus
