"""The GPUs of this machine, as the driver's own tool says them."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Where drivers, WSL and container runtimes put it, beside PATH.
_PLACES = (
    "/usr/bin/nvidia-smi",
    "/usr/lib/wsl/lib/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/opt/bin/nvidia-smi",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
    "/usr/local/bin/nvidia-smi",
)
#: Seconds. Without the persistence daemon a driver wakes eight GPUs in about ten.
_PATIENCE = 30
#: `nvidia-smi --help-query-gpu`; drivers before 510 don't know the last and answer nothing at all.
_FIELDS = ("uuid", "name", "memory.total", "memory.free", "mig.mode.current", "compute_cap")
_MISSING = "nvidia-smi is not there"
_HANGS = f"nvidia-smi did not answer within {_PATIENCE} seconds"
#: Characters of its complaint that are repeated.
_QUOTED = 200
MIB = 1 << 20
#: Seconds between two looks at memory that is being given back, and looks that show no more of it.
_PAUSE, _UNCHANGED = 0.5, 4


@dataclass(frozen=True)
class Gpu:
    """One GPU that programs started here can use."""

    uuid: str
    name: str
    memory: int  # bytes, all of it; 0 where it is not said (MIG, memory shared with the processor)
    free: int = 0  # bytes, now
    capability: str = ""  # "9.0"; empty where the driver does not say
    index: int = 0  # nvidia-smi's: by PCI bus


def tool(environ: Mapping[str, str]) -> str:
    """Where nvidia-smi is; empty where it is not."""
    return shutil.which("nvidia-smi", path=environ.get("PATH", "")) or next(
        (place for place in _PLACES if Path(place).exists()), ""
    )


@dataclass(frozen=True)
class Answer:
    """What nvidia-smi printed, or why it printed nothing."""

    text: str = ""
    problem: str = ""


def gpus(environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Ask nvidia-smi; none where it is missing, fails or hangs.

    What CUDA_VISIBLE_DEVICES in `environ` hides is left out.
    """
    return ask_gpus(environ)[0]


def ask_gpus(environ: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    """As `gpus`, and why nvidia-smi names none."""
    first = Answer()
    for fields in (_FIELDS, _FIELDS[:-1], _FIELDS[:4]):
        answer = ask(environ, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        if found := parse(answer.text):
            return visible(found, environ.get("CUDA_VISIBLE_DEVICES")), ""
        first = first if first.problem else answer
        if answer.problem in (_MISSING, _HANGS):
            break
    return (), first.problem or "nvidia-smi names no GPU"


def settled(environ: Mapping[str, str], enough: Callable[[Gpu], bool]) -> tuple[Gpu, ...]:
    """As `gpus`, once the driver has taken back what a server that has just ended held.

    Waits only while a GPU has not `enough` free memory, and not for long where no more comes.
    """
    found, still = gpus(environ), 0
    most = sum(one.free for one in found)
    while still < _UNCHANGED and not all(map(enough, found)):
        time.sleep(_PAUSE)
        found = gpus(environ)
        now = sum(one.free for one in found)
        # Only for more: on a desktop the figure never stands still.
        still, most = (0, now) if now > most else (still + 1, most)
    return found


def ask(environ: Mapping[str, str], *words: str) -> Answer:
    """Run nvidia-smi with these words, for a limited time."""
    program = tool(environ)
    if not program:
        return Answer(problem=_MISSING)
    try:
        process = subprocess.Popen(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        return Answer(problem=f"{program}: {error.strerror}")
    try:
        output, complaint = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        # Not waited for: with a stuck driver it can't be killed.
        process.kill()
        return Answer(problem=_HANGS)
    text = output.decode("utf-8", "replace")
    if process.returncode:
        told = (text + complaint.decode("utf-8", "replace")).split()
        said = " ".join(told)[:_QUOTED] or "it says nothing"
        return Answer(problem=f"nvidia-smi failed with status {process.returncode}: {said}")
    return Answer(text)


def parse(text: str) -> tuple[Gpu, ...]:
    """Read what nvidia-smi prints for the fields above, one GPU a line; other lines are no GPUs."""
    found: list[Gpu] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 4 or not cells[0].startswith("GPU-"):
            continue
        sliced = "enabled" in (cell.lower() for cell in cells[4:5])
        capability = cells[5] if len(cells) > 5 and cells[5].replace(".", "").isdecimal() else ""
        told = not sliced and cells[3].isdecimal()
        memory = _bytes(cells[2]) if told else 0
        found.append(Gpu(cells[0], cells[1], memory, _bytes(cells[3]), capability, len(found)))
    return tuple(found)


def _bytes(mib: str) -> int:
    with contextlib.suppress(ValueError):
        return max(0, int(mib)) * MIB
    return 0  # "[N/A]"


def visible(found: Sequence[Gpu], chosen: str | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; None where it is not set.

    CUDA C++ Programming Guide, "CUDA Environment Variables": numbers, or beginnings of names such
    as GPU-8932f937; whatever follows an entry that is neither is left out.
    """
    if chosen is None:
        return tuple(found)
    kept: list[Gpu] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if entry.isdecimal() and int(entry) < len(found):
            kept.append(found[int(entry)])
        elif entry.startswith("GPU-"):
            kept += [one for one in found if one.uuid.startswith(entry)][:1]
        else:
            break
    return tuple(dict.fromkeys(kept))


def alike(found: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that one server can share: those of the product with the most memory in all.

    All of them where memory is not said, which leaves nothing to compare.
    """
    found = tuple(found)
    if not all(one.memory for one in found):
        return found
    products: dict[tuple[str, int], list[Gpu]] = {}
    for one in found:
        products.setdefault((one.name, one.memory), []).append(one)
    groups = sorted(products.values(), key=lambda group: -sum(one.memory for one in group))
    return tuple(groups[0]) if groups else ()
