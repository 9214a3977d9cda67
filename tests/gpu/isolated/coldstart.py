"""Where the seconds of a start go, by the lines of vLLM's own log.

Two answers: how long each phase lasted by the lines' times (whole seconds), and what vLLM says of
single pieces. Lines of vLLM 0.19.1 to 0.33.0.
"""

import re
from datetime import datetime
from typing import Any

#: A phase, and the line that ends it, in the order of a start. A line that does not come adds its
#: phase to the next one.
PHASES = (
    ("imports", r"version \d+\.\d+|non-default args"),  # entrypoints: the server's own process
    ("configuration", r"Resolved architecture"),  # a process of its own looks at the model's class
    ("engine_process", r"Initializing a V1 LLM engine"),  # a third process imports it all again
    ("device", r"Starting to load model"),
    ("weights", r"Model loading took"),
    ("profile", r"Available KV cache memory|Memory profiling takes"),  # compiles, tunes, warms up
    ("capture", r"Graph capturing finished"),
    ("warm_up", r"init engine \(profile"),
    ("listen", r"Starting vLLM (?:API )?server"),
)
#: What vLLM says in seconds; several such lines are added up.
SAID = {
    "weights": r"Model loading took .* (?:and|memory and) ([\d.]+) seconds",
    "read_weights": r"Loading weights took ([\d.]+) seconds",
    "dynamo": r"Dynamo bytecode transform time: ([\d.]+) s",
    "inductor": r"Compiling a graph for .* takes ([\d.]+) s",
    "compiled_from_cache": r"Directly load the compiled graph\(s\) .* took ([\d.]+) s",
    "torch_compile": r"torch\.compile (?:took|takes) ([\d.]+) s in total",
    "warm_up": r"Initial profiling/warmup run took ([\d.]+) s",
    "memory_profile": r"Memory profiling takes ([\d.]+) seconds",
    "capture": r"Graph capturing finished in ([\d.]+) secs",
    "init_engine": r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s",
    "compilation": r"init engine .*\(compilation: ([\d.]+) s",
}
#: What was chosen, as it says it: what ran, for comparing with what the kernels were found for.
CHOSEN = re.compile(
    r"\] ((?:Using (?!max model|default).*(?:[Bb]ackend|kernel|FlashAttention|attention).*)"
    r"|Enforce eager set.*|Cudagraph is disabled.*)"
)
_TIME = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) (\d\d-\d\d \d\d:\d\d:\d\d)")


def split(log: str, begun: float, ended: float) -> dict[str, Any]:
    """The phases between two times (seconds since the epoch), and what vLLM itself says.

    `begun` is when the start was asked for, `ended` when its first answer was there.
    """
    return {
        "seconds": round(ended - begun, 1),
        "phases": phases(log, begun, ended),
        "said": said(log),
        "chosen": chosen(log),
    }


def phases(log: str, begun: float, ended: float) -> dict[str, float]:
    """Seconds of each phase; they add up to the whole."""
    found: dict[str, float] = {}
    waiting, before = list(PHASES), begun
    for line in log.splitlines():
        when = time_of(line, begun)
        if when is None:
            continue
        place = next((i for i, (_, end) in enumerate(waiting) if re.search(end, line)), None)
        if place is None:
            continue
        when = min(max(when, before), ended)
        found[waiting[place][0]] = round(when - before, 1)
        waiting, before = waiting[place + 1 :], when
    found["answer"] = round(ended - before, 1)
    return found


def time_of(line: str, near: float) -> float | None:
    """A line's time, which has no year: that of `near`."""
    if (found := _TIME.search(line)) is None:
        return None
    year = datetime.fromtimestamp(near).year  # the log is in local time
    try:
        when = datetime.strptime(f"{year}-{found[1]}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return when.timestamp()


def said(log: str) -> dict[str, float]:
    """Seconds by vLLM's own count."""
    sums = {name: [float(one) for one in re.findall(line, log)] for name, line in SAID.items()}
    return {name: round(sum(values), 2) for name, values in sums.items() if values}


def chosen(log: str) -> list[str]:
    """Back ends and kernels that were chosen, each once."""
    return list(dict.fromkeys(CHOSEN.findall(log)))
