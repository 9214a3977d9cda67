"""How an audit reads: all or a sample, how fast, on how many cores, anew or going on."""

import re
from dataclasses import dataclass
from pathlib import Path

from manifests.audit import memory, sampling
from manifests.errors import UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
_RATE = re.compile(r"([0-9]{1,12})([KMG]I?)?B?(?:/S)?", re.IGNORECASE)
#: Bytes per second; slower, a disc of today takes weeks.
_SLOWEST = 10_000
_MOST_JOBS = 1024


@dataclass(frozen=True)
class How:
    """The choices of whoever audits; those at hand are: everything, at once, anew."""

    sample: sampling.Sample | None = None
    rate: int = 0  # bytes per second over all threads; 0: no limit
    jobs: int = 0  # threads; 0: one for each core
    resume: Path | None = None  # keeps what was found right until the audit has ended


def how(
    sample: str = "", seed: str = "", max_rate: str = "", jobs: int = 0, resume: Path | None = None
) -> How:
    """Read the options.

    A sample that is gone on with keeps its seed. Raises UsageError.
    """
    if seed and not sample:
        raise UsageError("--seed is for --sample", mend="leave it out, or name a --sample")
    if not 0 <= jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: 1 to {_MOST_JOBS} threads can be had")
    if sample and not seed and resume is not None:
        seed = memory.seed_in(resume)
    drawn = sampling.parse(sample, seed) if sample else None
    return How(drawn, _rate(max_rate) if max_rate else 0, jobs, resume)


def _rate(text: str) -> int:
    match = _RATE.fullmatch(text.strip())
    rate = int(match[1]) * _UNITS[(match[2] or "").upper()] if match else 0
    if rate < _SLOWEST:
        raise UsageError(
            f"--max-rate {text!r} can't be read, or is less than {_SLOWEST} bytes per second",
            mend="give bytes per second: 100M, 20MiB",
        )
    return rate
