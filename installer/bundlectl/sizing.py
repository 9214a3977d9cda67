"""What the server is told about memory where etc/serve.toml doesn't say, and why.

Pure: the model's shape, the stack's server and the operator's settings against what the host has.
What the operator set wins, and is held against the same sums before anything is started.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from bundlectl.command import flat, switch_arguments
from bundlectl.config import AUTO, ServeConfig
from bundlectl.nvidia import Gpu, alike
from manifests.console import size
from manifests.errors import TargetError
from manifests.fit import (
    CPU_BLOCK,
    CPU_CACHE,
    UTILIZATION,
    Fit,
    Shape,
    cpu_cache,
    fit,
    fit_cpu,
    flags_of,
    pages,
    settings_of,
    unjudged,
    with_cpu_states,
)
from manifests.fit.memory import free_share
from manifests.stack import Server

#: The sums are careful estimates: a length that the operator set may be so many per cent beyond
#: them, and it is the server that decides.
TOLERANCE = 10
#: vLLM refuses bfloat16 below this (vllm/platforms/cuda.py, check_if_supports_dtype).
_BFLOAT16 = (8, 0)
_SERVER_DECIDES = "the server decides about its memory by itself"
_END_OTHERS = "end what runs on the GPU (nvidia-smi names it), then run the same command again"
GIB = 1 << 30


@dataclass(frozen=True)
class Sizing:
    """What is added to the server's command and environment; `reasons` is a line for each.

    `answer` is what the sums say, None where none could be done.
    """

    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    answer: Fit | None = None


def on_gpus(
    shape: Shape | None,
    server: Server,
    settings: ServeConfig,
    gpus: Sequence[Gpu],
    *,
    strict: bool = True,
) -> Sizing:
    """For a server on GPUs, all that are visible to it.

    Raises TargetError with the numbers where it can't fit; not where `strict` is off.
    """
    every = alike(gpus)
    dtype = _dtype(every, settings)
    if why := _unknown(shape, server, settings, every):
        return Sizing(dtype, reasons=(f"{why}: {_SERVER_DECIDES}",))
    assert shape is not None
    used = _unoccupied(every, settings)
    found = _fitting(shape, server, settings, used)
    if not found.fits and len(used) < len(every):
        used = every
        found = _fitting(shape, server, settings, used)
    free = _free(used)
    if strict and settings.gpu_memory_utilization > free:
        raise _taken(settings, used)
    if not found.fits:
        if strict:
            _refuse(found, _idle(shape, server, settings, used), settings, used)
        ignored = (f"{found.refusal[0]} (ignored): {_SERVER_DECIDES}",)
        return Sizing(dtype, reasons=ignored, answer=found)
    chosen = _unset(flags_of(found), settings)
    hidden = {}
    if len(used) < len(gpus):
        # vLLM takes the first ones, whichever those are, and knows them by numbers only: it calls
        # int() on each (vllm/platforms/interface.py, device_id_to_physical_device_id).
        hidden = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # nvidia-smi's
            "CUDA_VISIBLE_DEVICES": ",".join(str(one.index) for one in used),
        }
    return Sizing((*dtype, *chosen), hidden, tuple(_reasons(found, settings, used, free)), found)


def on_cpu(
    shape: Shape | None,
    server: Server,
    settings: ServeConfig,
    memory: int,
    *,
    strict: bool = True,
) -> Sizing:
    """For a server without a GPU; `memory`: bytes that processes can take now.

    Raises TargetError with the numbers where it can't fit; not where `strict` is off.
    """
    tested, told = cpu_cache(server.environment), cpu_cache(settings.environment)
    if why := _unknown_on_cpu(shape, tested, settings):
        return Sizing(reasons=(f"{why}: {_SERVER_DECIDES}",))
    assert shape is not None
    beside = server.memory - tested
    cache = told or _cache(shape, settings, tested, memory - shape.weights - beside)
    found = fit_cpu(
        shape,
        memory=memory,
        cache=cache,
        beside=beside + cache,
        max_model_len=settings.max_model_len or None,
        prefix_caching=settings_of(_arguments(server, settings)).prefix_caching,
    )
    if not found.fits:
        if strict:
            raise TargetError(
                "the model does not fit into this host's memory",
                findings=found.refusal,
                mend=_mend_on_cpu(found, settings),
            )
        ignored = (f"{found.refusal[0]} (ignored): {_SERVER_DECIDES}",)
        return Sizing(reasons=ignored, answer=found)
    space = str(cache // GIB)
    where = "etc/serve.toml says so" if told else "the stack's own"
    if not told and cache != tested:
        where = "chosen, for one request of the greatest length"
    return Sizing(
        () if settings.max_model_len else ("--max-model-len", str(found.max_model_len)),
        {} if told or cache == tested else {CPU_CACHE: space},
        (f"{CPU_CACHE} {space} GiB: {where}", _length(found, settings)),
        found,
    )


def _unoccupied(every: Sequence[Gpu], settings: ServeConfig) -> tuple[Gpu, ...]:
    """Those on which the server's share is free; all of them where these are too few."""
    share = settings.gpu_memory_utilization or UTILIZATION
    free = tuple(one for one in every if _free([one]) >= share)
    return free if len(free) >= max(1, settings.tensor_parallel_size) else tuple(every)


def _free(used: Sequence[Gpu]) -> int:
    """Per cent of each GPU that a server can ask for now."""
    return free_share(min(one.memory for one in used), min(one.free for one in used))


def _unknown(
    shape: Shape | None, server: Server, settings: ServeConfig, used: Sequence[Gpu]
) -> str:
    """Why no sums can be done; empty where they can."""
    if shape is None:
        return "this class of model is not known"
    if not used:
        return "nvidia-smi names no GPU"
    if not all(one.memory for one in used):
        silent = next(one.name for one in used if not one.memory)
        return f"nvidia-smi does not say how much memory {silent} gives"
    return _told_otherwise(server, settings)


def _unknown_on_cpu(shape: Shape | None, tested: int, settings: ServeConfig) -> str:
    if shape is None:
        return "this class of model is not known"
    if not tested or (CPU_CACHE in settings.environment and not cpu_cache(settings.environment)):
        return f"{CPU_CACHE} is no number of GiB"
    return _told_otherwise(None, settings)


def _told_otherwise(server: Server | None, settings: ServeConfig) -> str:
    others = unjudged(_arguments(server, settings))
    if settings.dtype == "float32":  # twice the width that the sums take
        others = ("dtype = float32", *others)
    if "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in settings.environment:
        others = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", *others)
    return f"etc/serve.toml says {', '.join(others)}" if others else ""


def _arguments(server: Server | None, settings: ServeConfig) -> tuple[str, ...]:
    most = ("--max-num-seqs", str(settings.max_num_seqs)) if settings.max_num_seqs else ()
    own: tuple[str, ...] = ()
    if server is not None:
        own = (*server.arguments, *flat(switch_arguments(server, settings)))
    return (*own, *most, *settings.extra_arguments)


def _asking(
    shape: Shape, server: Server, settings: ServeConfig, used: Sequence[Gpu]
) -> Callable[[int, int | None], Fit]:
    def ask(utilization: int, length: int | None) -> Fit:
        return fit(
            shape,
            gpu_memory=min(one.memory for one in used),
            gpus=len(used),
            utilization=utilization,
            tensor_parallel=settings.tensor_parallel_size or None,
            max_model_len=length,
            settings=settings_of(_arguments(server, settings)),
        )

    return ask


def _fitting(shape: Shape, server: Server, settings: ServeConfig, used: Sequence[Gpu]) -> Fit:
    """The answer for the memory that is free now, a little tolerance for the length included."""
    ask = _asking(shape, server, settings, used)
    share = min(settings.gpu_memory_utilization or UTILIZATION, _free(used))
    length = settings.max_model_len or None
    found = ask(share, length)
    if found.fits or length is None:
        return found
    # What fits is suggested; it is not passed on, as a length that was set is.
    closest = ask(share, None)
    near = closest.fits and length * 100 <= closest.longest * (100 + TOLERANCE)
    return closest if near and length <= closest.limit else found


def _idle(shape: Shape, server: Server, settings: ServeConfig, used: Sequence[Gpu]) -> Fit:
    """The answer if nothing else were on the GPUs."""
    share = settings.gpu_memory_utilization or UTILIZATION
    return _asking(shape, server, settings, used)(share, settings.max_model_len or None)


def _refuse(found: Fit, idle: Fit, settings: ServeConfig, used: Sequence[Gpu]) -> NoReturn:
    if idle.fits and idle.room.utilization > found.room.utilization:
        free = min(one.free for one in used)
        why = f"other processes hold GPU memory: {size(free)} of {size(used[0].memory)} are free"
        mend = _END_OTHERS
    else:
        found = idle
        set_here = _explicit(settings)
        why = f"etc/serve.toml says {', '.join(set_here)}" if set_here else ""
        mend = "; or ".join(found.alternatives) or "choose a smaller model"
    raise TargetError(
        f"the model does not fit the GPU memory of this host ({products(used)})",
        findings=(found.text().splitlines()[0], *found.refusal),
        why=why,
        mend=mend,
    )


def _taken(settings: ServeConfig, used: Sequence[Gpu]) -> TargetError:
    share, memory = settings.gpu_memory_utilization, min(one.memory for one in used)
    return TargetError(
        f"gpu_memory_utilization = {share} in etc/serve.toml asks for "
        f"{size(memory * share // 100)} of each GPU, "
        f"and {size(min(one.free for one in used))} are free",
        why="other processes hold the rest, or the GPU keeps it for itself",
        mend=f"{_END_OTHERS}; or set gpu_memory_utilization = 0, which takes what is free",
    )


def products(used: Sequence[Gpu]) -> str:
    """The GPUs for people: "2 x NVIDIA L4"."""
    return f"{len(used)} x {used[0].name}" if len(used) > 1 else used[0].name


def _explicit(settings: ServeConfig) -> list[str]:
    names = ("tensor_parallel_size", "gpu_memory_utilization", "max_model_len", "max_num_seqs")
    return [f"{name} = {value}" for name in names if (value := getattr(settings, name))]


def _unset(flags: Sequence[str], settings: ServeConfig) -> tuple[str, ...]:
    """The flags that the operator hasn't set; those are written by `bundlectl.command`."""
    pairs = zip(flags[::2], flags[1::2], strict=True)
    return tuple(word for pair in pairs if not getattr(settings, key_of(pair[0])) for word in pair)


def key_of(flag: str) -> str:
    """The key of serve.toml that sets a flag."""
    return flag.removeprefix("--").replace("-", "_")


def _reasons(found: Fit, settings: ServeConfig, used: Sequence[Gpu], free: int) -> list[str]:
    room = found.room
    parts = f"as many of {products(used)} as the model can be split among"
    share = "chosen"
    if free < UTILIZATION:
        share = f"{size(min(one.free for one in used))} of {size(room.gpu_memory)} are free"
    lines = [
        _line("tensor_parallel_size", str(room.tensor_parallel), parts, settings),
        _line("gpu_memory_utilization", f"{room.utilization / 100:.2f}", share, settings),
        _length(found, settings),
    ]
    if found.sequences:
        why = "a request needs a block of the cache for its state"
        lines.append(_line("max_num_seqs", str(found.sequences), why, settings))
    return lines


def _length(found: Fit, settings: ServeConfig) -> str:
    why = f"what the {size(found.room.cache)} for the cache hold"
    if found.max_model_len == found.limit:
        why = "the most that the model allows"
    value = settings.max_model_len or found.max_model_len
    return _line("max_model_len", str(value), why, settings)


def _line(key: str, value: str, why: str, settings: ServeConfig) -> str:
    return f"{key} {value}: {'etc/serve.toml says so' if getattr(settings, key) else why}"


def _dtype(used: Sequence[Gpu], settings: ServeConfig) -> tuple[str, ...]:
    """float16 in the place of bfloat16 on GPUs that lack it, where that is left open.

    Raises TargetError where bfloat16 was asked for.
    """
    known = [tuple(map(int, one.capability.split("."))) for one in used if one.capability]
    if not known or min(known) >= _BFLOAT16:
        return ()
    if settings.dtype == "bfloat16":
        raise TargetError(
            f"dtype = bfloat16 in etc/serve.toml, and {products(used)} has none",
            why="GPUs have it from compute capability 8.0 on",
            mend="set dtype to auto, which takes float16 there",
        )
    return ("--dtype", "float16") if settings.dtype == AUTO else ()


def _cache(shape: Shape, settings: ServeConfig, tested: int, left: int) -> int:
    """The stack's own size, or more where the longest request needs more and memory is there."""
    cut = pages(with_cpu_states(shape), block=CPU_BLOCK)
    length = min(settings.max_model_len or shape.max_length, shape.max_length)
    wanted = -(-cut.needed(length) // GIB) * GIB
    return max(tested, min(wanted, left // 2 // GIB * GIB))


def _mend_on_cpu(found: Fit, settings: ServeConfig) -> str:
    if settings.max_model_len and found.room.weights + found.room.overhead < found.room.usable:
        return (
            f"set max_model_len to {min(found.longest, found.limit)} or less in etc/serve.toml, or "
            f"{CPU_CACHE} (GiB) in its [environment] to more"
        )
    return "end other programs, raise the container's limit, or serve a smaller model"
