"""Stacks: tested combinations of server, framework and Python, as data in `stacks/*.toml`."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from manifests.errors import IntegrityError, UsageError
from manifests.records import from_data


@dataclass(frozen=True)
class Repair:
    """A change that makes a published wheel usable beside the others; see wheelhouse.repair."""

    wheel: str  # requirement, "torchvision==0.28.0"
    reason: str
    requires: dict[str, str] = field(default_factory=dict)  # name → new requirement; "" drops it
    tag: str = ""  # the compatibility tag that WHEEL should state
    add: dict[str, str] = field(default_factory=dict)  # path in the wheel → text
    append: dict[str, str] = field(default_factory=dict)  # path in the wheel → lines put after
    prepend: dict[str, str] = field(default_factory=dict)  # path in the wheel → lines put before
    label: str = "repaired"  # local version of the result; one per way of repairing a wheel


@dataclass(frozen=True)
class Flavour:
    """One way to obtain a stack's wheels. The first whose `needs` a source offers is taken."""

    name: str
    summary: str
    needs: tuple[str, ...] = ()  # requirements that have to be found, or the next flavour is tried
    requirements: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True)
class Switch:
    """What a yes or no of the isolated host's settings is to this server, as arguments."""

    key: str  # of etc/serve.toml, "pictures"
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True)
class Server:
    """How the stack's server is started; bundlectl adds model, address, port and limits."""

    module: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    thinking_argument: str = "--default-chat-template-kwargs"
    reasoning_parser: str = ""
    memory: int = 0  # bytes that the server needs beside the weights
    parser: str = ""  # module with its make_arg_parser, by which arguments are checked before
    switches: tuple[Switch, ...] = ()
    hashes_api_key: bool = False  # its compile caches' names depend on VLLM_API_KEY


@dataclass(frozen=True)
class Cuda:
    """What a stack asks of the NVIDIA driver; releases as `nvidia-smi` prints them, "525.60.13"."""

    version: str  # toolkit that its libraries come from, "12.8"
    driver: str  # lowest that runs its machine code (CUDA minor-version compatibility)
    driver_for_ptx: str  # lowest that compiles its PTX, where a GPU finds nothing else


@dataclass(frozen=True)
class Component:
    """Libraries of one wheel that do one job together, and the GPUs that they have code for."""

    name: str  # the job, "attention"
    wheel: str  # normalised name, "vllm"
    libraries: tuple[str, ...]  # glob patterns of paths in the wheel
    gpus: tuple[str, ...]  # compute capabilities served by machine code, "sm_86"
    ptx: tuple[str, ...] = ()  # served only by PTX, which the driver compiles at first use
    needed: bool = True  # False: for some models only, or where it lacks code others do the work


@dataclass(frozen=True)
class Compiler:
    """A compiler that the server would start on the isolated host, and why it need not."""

    name: str  # "C compiler (Triton)"
    when: str  # what makes it start
    answer: str  # "supplied" or "avoided"
    how: str


@dataclass(frozen=True)
class FlashAttention:
    """The PyPI package flash-attn beside this stack."""

    version: str
    needed: bool  # False: the serving path has its own
    reason: str


@dataclass(frozen=True)
class Stack:
    """A tested combination. Every figure's source stands in a comment of its TOML file."""

    name: str
    summary: str
    gpus: tuple[str, ...]  # compute capabilities served, or "cpu"
    python: tuple[str, ...]  # "3.11"; the first is the default
    glibc: str  # lowest glibc that its wheels accept
    cpu_flags: tuple[str, ...]  # of /proc/cpuinfo; one of them is needed
    resolution_date: str  # RFC 3339; later uploads are not considered
    architectures: tuple[str, ...]  # of the model's config.json
    conda: tuple[str, ...]  # conda specs beside Python
    winning_libraries: tuple[str, ...]  # the only ones on the server's LD_LIBRARY_PATH
    runtime: tuple[str, ...]  # requirements of the bundle's own small runtime
    server: Server
    flavours: tuple[Flavour, ...]
    version: str = ""  # the server's release
    versions: dict[str, str] = field(default_factory=dict)  # of what it was built with, by wheel
    arch: str = "x86_64"  # of the machines that its wheels are for
    cuda: Cuda | None = None  # None: needs no GPU
    unserved: dict[str, str] = field(default_factory=dict)  # capability → why it is not in `gpus`
    components: tuple[Component, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    flash_attention: FlashAttention | None = None
    families: tuple[str, ...] = ()  # model families known to serve, "Qwen3.5"
    conflicts: tuple[str, ...] = ()  # known ones, a sentence each


@cache
def stacks() -> dict[str, Stack]:
    """All stacks by name."""
    folder = resources.files("manifests") / "stacks"
    found = {}
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if item.name.endswith(".toml"):
            data = tomllib.loads(item.read_text("utf-8"))
            found[data["name"]] = from_data(Stack, data, item.name)
    return found


def named(name: str) -> Stack:
    """The stack of that name, or the one in a file of your own whose name ends in `.toml`.

    Raises UsageError naming those that exist, or saying what is wrong with the file.
    """
    if name.endswith(".toml"):
        return _from_file(Path(name))
    try:
        return stacks()[name]
    except KeyError:
        known = ", ".join(sorted(stacks()))
        raise UsageError(f"unknown stack {name!r}", mend=f"choose one of: {known}") from None


def _from_file(path: Path) -> Stack:
    try:
        return from_data(Stack, tomllib.loads(path.read_text("utf-8")), path.name)
    except (OSError, ValueError, RecursionError, IntegrityError) as error:
        raise UsageError(
            f"{path}: not a stack: {error}",
            mend="take a file of manifests/stacks/ as a pattern",
        ) from None
