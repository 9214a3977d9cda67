"""Which machine code serves which GPU: FLASH_ATTN_CUDA_ARCHS for a target."""

from collections.abc import Iterable, Sequence

from manifests.errors import TargetError
from wheelhouse.flashattn.tables import Arch, tables


def archs(gpus: Iterable[str]) -> tuple[str, str]:
    """The value of FLASH_ATTN_CUDA_ARCHS for these GPUs ("sm_86"), and a sentence that explains it.

    Raises TargetError naming every GPU for which flash-attn has no kernels.
    """
    wanted = sorted(set(gpus), key=_number)
    unserved = [gpu for gpu in wanted if _serving(gpu) is None]
    if unserved or not wanted:
        served = [gpu for arch in tables().archs for gpu in arch.gpus]
        raise TargetError(
            f"flash-attn has no kernels for {', '.join(unserved) or 'a target without a GPU'}",
            why=f"it is written for {', '.join(served)}; older GPUs lack the instructions it uses",
            mend="leave --with-flash-attn away: vLLM chooses another attention backend there",
        )
    chosen = [arch for arch in tables().archs if set(arch.gpus) & set(wanted)]
    value = ";".join(arch.value for arch in chosen)
    return value, "; ".join(_sentence(arch, wanted) for arch in chosen)


def device(value: str) -> str:
    """The architecture that nvcc makes for one value: "80" → "sm_80"."""
    return f"sm_{value}"


def _serving(gpu: str) -> Arch | None:
    return next((arch for arch in tables().archs if gpu in arch.gpus), None)


def _sentence(arch: Arch, wanted: Sequence[str]) -> str:
    own, others = device(arch.value), [gpu for gpu in wanted if gpu in arch.gpus]
    borrowed = [gpu for gpu in others if gpu != own]
    if not borrowed:
        return f"{own} is built for itself"
    return f"{own} is built for {', '.join(others)}: flash-attn has no code of {_their(borrowed)}"


def _their(gpus: Sequence[str]) -> str:
    return f"{gpus[0]}'s own" if len(gpus) == 1 else f"{' and '.join(gpus)}'s own"


def _number(gpu: str) -> tuple[int, str]:
    digits = gpu.removeprefix("sm_")
    return (int(digits) if digits.isdigit() else 0, gpu)
