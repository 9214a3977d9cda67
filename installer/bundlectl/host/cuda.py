"""What CUDA itself says: cuInit, called in a process of its own, which may hang or crash.

The names are those of the CUDA Driver API's documentation ("Initialization", "Device Management").
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

#: Seconds. Without the persistence daemon a driver wakes eight GPUs in about ten.
PATIENCE = 30.0
LIBRARY = "libcuda.so.1"
_VERSION = re.compile(r"libcuda\.so\.(\d{3,}(?:\.\d+)+)$")
#: Looks where the loader found the library, and says the realpath, whose name ends in a release.
_QUESTION = """
import ctypes, json, os, sys
answer = {}
try:
    cuda = ctypes.CDLL(sys.argv[1])
    with open("/proc/self/maps", errors="replace") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if "libcuda.so" in line]
    answer["path"] = os.path.realpath(paths[0]) if paths else ""
    number = ctypes.c_int(0)
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        answer["version"] = number.value
    answer["code"] = cuda.cuInit(0)
    if answer["code"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
        answer["devices"] = number.value
except (OSError, AttributeError) as error:
    answer["problem"] = str(error)
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Cuda:
    """What the driver's library answered; `code` is a CUresult."""

    code: int = 0
    path: str = ""  # of the library that the loader takes
    version: int = 0  # of CUDA, 12080 for 12.8
    devices: int = 0
    problem: str = ""  # why there is no answer

    @property
    def release(self) -> str:
        """The driver release that the library belongs to; empty where its name does not say."""
        found = _VERSION.search(self.path)
        return found[1] if found else ""


def ask(environ: Mapping[str, str], library: str = LIBRARY, patience: float = PATIENCE) -> Cuda:
    """Initialise CUDA in a process with these variables."""
    command = [sys.executable, "-I", "-B", "-c", _QUESTION, library]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
        )
    except OSError as error:
        return Cuda(problem=error.strerror or str(error))
    try:
        output, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        # Not waited for: with a stuck driver it can't be killed.
        process.kill()
        return Cuda(problem=f"cuInit did not return within {patience:.0f} seconds")
    if process.returncode < 0:
        return Cuda(
            problem=f"the process that called cuInit ended with signal {-process.returncode}"
        )
    return parse(output.decode("utf-8", "replace"))


def parse(output: str) -> Cuda:
    """Read the answer: the last line, as libraries may have printed something before it."""
    try:
        data = json.loads((output.splitlines() or [""])[-1])
        return Cuda(**data)
    except (ValueError, TypeError):
        return Cuda(problem="this Python can't load libraries")
