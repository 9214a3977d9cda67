"""What a build says: its progress by units, and in words why it failed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import BundleError, FilesystemError, SourceError, UsageError

#: NINJA_STATUS, so that a line of ninja can't be mistaken: finished and all edges of this run.
NINJA_STATUS = "<%f/%t> "
_STATUS = re.compile(r"^<(\d+)/(\d+)> ")
#: A command line of nvcc with its hundred flags says nothing; the compiler's own lines do.
_ERROR = re.compile(r"\b(?:error|Error|ERROR|fatal|FAILED)\b")
_QUOTED, _WIDTH = 6, 300
_AGAIN = "what was compiled is kept: the same command continues"


class Units:
    """Counts translation units out of ninja's status lines."""

    def __init__(self, total: int, progress: Callable[[int], None]) -> None:
        """`total` units in all; those that an earlier run compiled are told at once."""
        self._total = total
        self._progress = progress
        self._told = 0
        self.compiled = 0  # in this run

    def take(self, line: str) -> None:
        """Look at one line of output."""
        match = _STATUS.match(line)
        if match is None:
            return
        finished, edges = int(match[1]), int(match[2])
        self.compiled = finished
        done = min(self._total, max(0, self._total - edges) + finished)
        self._progress(done - self._told)
        self._told = done

    def finish(self) -> None:
        """The build is complete, whatever ninja had left to do."""
        self._progress(self._total - self._told)
        self._told = self._total


@dataclass(frozen=True)
class Known:
    """A way in which builds fail."""

    pattern: re.Pattern[str]
    error: type[BundleError]
    what: str  # {0} is the first group of the pattern
    why: str
    mend: str


def _known(pattern: str, error: type[BundleError], what: str, why: str, mend: str) -> Known:
    return Known(re.compile(pattern, re.MULTILINE), error, what, why, mend)


#: In this order: a full disk also makes compilers die.
KNOWN = (
    _known(
        r"No space left on device|Disk quota exceeded",
        FilesystemError,
        "the disk became full while flash-attn was compiled",
        "objects and temporary files of the compilers take about 5 GB",
        f"free some space or choose another --cache; {_AGAIN}",
    ),
    _known(
        # GCC's driver, nvcc, and a shell each say in their own way that a child got signal 9.
        r"Killed signal terminated program (\w+)|'(\w+)' died due to signal 9|^(Killed)$",
        UsageError,
        "the kernel killed the compiler ({0}) while flash-attn was compiled",
        "the memory did not do for so many units at once",
        f"run with fewer at once, MAX_JOBS=1 in the environment, or end other programs; {_AGAIN}",
    ),
    _known(
        r"'(\w+)' died due to signal (?:4|6|7|8|11)\b|internal compiler error",
        UsageError,
        "the compiler crashed ({0}) while flash-attn was compiled",
        "a damaged installation or failing memory makes compilers crash at odd places",
        f"run it again; if it crashes at the same unit, use another CUDA_HOME; {_AGAIN}",
    ),
    _known(
        r"unsupported GNU version! (.*)$",
        UsageError,
        "nvcc does not accept this machine's g++: {0}",
        "each release of CUDA knows the compilers that were there when it was made",
        "install an older g++ and put it first on PATH as c++ and g++",
    ),
    _known(
        r"fatal error: (Python\.h): No such file",
        UsageError,
        "the build's Python has no {0}",
        "extensions are compiled against the header files of the target's Python",
        "use a conda channel, or install the headers of this Python (python3-dev)",
    ),
    _known(
        r"ModuleNotFoundError: No module named '([^']+)'",
        SourceError,
        "the build environment lacks the Python module {0}",
        "the recipe's environment is complete for the release it was made for",
        "make the lock again with `bundle lock`",
    ),
    _known(
        r"(?:not found|No such file or directory).*\b(nvcc|cicc|ptxas|cudafe\+\+)\b"
        r"|\b(nvcc|cicc|ptxas|cudafe\+\+): (?:not found|No such file)",
        UsageError,
        "a part of the CUDA compilers is missing: {0}",
        "the installation that CUDA_HOME names is not complete",
        "repair it, or unset CUDA_HOME",
    ),
)


def failure(text: str, status: int, log: Path) -> BundleError:
    """The error that a failed build's output amounts to; `status` as subprocess has it."""
    findings = [*_quote(text), f"the whole log: {log}"]
    for known in KNOWN:
        match = known.pattern.search(text)
        if match is not None:
            name = next((group for group in match.groups() if group), match[0])
            return known.error(
                known.what.format(name), why=known.why, mend=known.mend, findings=findings
            )
    if status < 0:
        return UsageError(
            f"the build of flash-attn was ended by signal {-status}",
            findings=findings,
            mend=f"run the same command again; {_AGAIN}",
        )
    return UsageError(
        "flash-attn could not be compiled",
        findings=findings,
        mend=f"look at the compiler's words above and in the log; {_AGAIN}",
    )


def _quote(text: str) -> Sequence[str]:
    """The last lines that speak of an error, else the last lines."""
    lines = [line.strip()[:_WIDTH] for line in text.splitlines() if line.strip()]
    spoken = [line for line in lines if _ERROR.search(line) and "-gencode" not in line]
    return (spoken or lines)[-_QUOTED:]
