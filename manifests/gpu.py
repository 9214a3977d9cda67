"""GPU targets: what `--gpu` accepts, as compute capabilities.

Capabilities and their spelling follow NVIDIA's list (https://developer.nvidia.com/cuda-gpus) and
nvcc's `sm_XY` (CUDA Compiler Driver documentation, "GPU Feature List").
"""

import difflib
import re

from manifests.errors import UsageError

CPU = "cpu"
#: Compute capabilities that CUDA 12 and 13 know, as major.minor without the dot.
CAPABILITIES = ("70", "72", "75", "80", "86", "87", "89", "90", "100", "101", "103", "120", "121")
_SPELLINGS = re.compile(r"(?:sm_?)?(\d+)(?:\.(\d))?", re.IGNORECASE)


def parse(text: str) -> tuple[str, ...]:
    """A comma-separated list of `cpu`, `sm_86` or `8.6` as sorted names, "sm_86".

    Raises UsageError for anything else, and for `cpu` beside a GPU.
    """
    gpus = tuple(sorted({_one(part.strip()) for part in text.split(",")}))
    if CPU in gpus and len(gpus) > 1:
        raise UsageError(
            f"--gpu {text}: cpu stands beside a GPU",
            why="one bundle holds one serving environment",
            mend="make two bundles",
        )
    return gpus


def _one(text: str) -> str:
    if text.lower() == CPU:
        return CPU
    match = _SPELLINGS.fullmatch(text)
    number = f"{match[1]}{match[2] or ''}" if match else ""
    if number in CAPABILITIES:
        return f"sm_{number}"
    known = [CPU, *(f"sm_{number}" for number in CAPABILITIES)]
    near = difflib.get_close_matches(text.lower(), known, n=3)
    raise UsageError(
        f"unknown GPU {text!r}",
        mend=f"did you mean {' or '.join(near)}?" if near else f"choose from: {', '.join(known)}",
    )
