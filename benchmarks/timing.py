"""Time commands from a flushed disk to a flushed disk, and show ratios."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Timing:
    """What one tool took for `size` bytes."""

    name: str
    size: int
    seconds: float

    @property
    def speed(self) -> float:
        """MB/s."""
        return self.size / self.seconds / 1e6


@dataclass(frozen=True)
class Figure:
    """Ours against what people use for the same, and against the machine itself."""

    what: str
    ours: Timing
    peers: tuple[Timing, ...]
    limits: tuple[Timing, ...] = ()  # the least that the machine needs for a part of the work


def timed(name: str, size: int, action: Callable[[], object]) -> Timing:
    """Run it once."""
    os.sync()
    started = time.perf_counter()
    action()
    os.sync()
    return Timing(name, size, time.perf_counter() - started)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")


def shell(command: str, cwd: Path) -> None:
    """Run a pipeline that has to succeed."""
    run("bash", "-e", "-o", "pipefail", "-c", command, cwd=cwd)


def report(figures: Sequence[Figure]) -> None:
    """Print the table."""
    print(f"{'':24}{'':32}{'MB/s':>8}{'seconds':>9}{'other/ours':>12}")
    for figure in figures:
        ours = figure.ours
        print(f"{figure.what:24}{ours.name:32}{ours.speed:8.0f}{ours.seconds:9.1f}")
        for other in (*figure.peers, *figure.limits):
            ratio = other.seconds / ours.seconds
            print(f"{'':24}{other.name:32}{other.speed:8.0f}{other.seconds:9.1f}{ratio:11.2f}x")
    print("other/ours: how many times our time goes into the other's; above 1 ours is the faster")
