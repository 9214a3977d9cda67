"""Measure the reader of GPU code against NVIDIA's cuobjdump on the same libraries, in one run.

    python benchmarks/kernels.py [LIBRARY ...] [--cuobjdump PROGRAM]

Without libraries, some wheels are fetched (about 210 MB), and cuobjdump where none is named. Both
find the files in the page cache. cuobjdump needs two runs for one answer (--list-elf, --list-ptx)
and inflates what it lists; ours reads headers, and also searches the data for code that cuobjdump
does not see. Each figure is the best of three.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from manifests.digests import hash_file, xxh3  # noqa: E402 - the repository is put on the path above
from wheelhouse import kernels  # noqa: E402

TOOL = "nvidia-cuda-cuobjdump==13.5.37"
#: Device-linked, template-heavy, small, and one that is mostly tables among which to search.
WHEELS = (
    "bitsandbytes==0.48.2",
    "cupy-cuda12x==13.3.0",
    "nvidia-nvjpeg==13.3.2.43",
    "nvidia-curand==10.4.0.35",
)
REPEATS = 3


@dataclass(frozen=True)
class Timing:
    """One library, both ways, in seconds."""

    path: Path
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def fetch(folder: Path, requirement: str) -> list[Path]:
    """The libraries and programs of a wheel."""
    place = folder / requirement
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "--dest"]
    platforms = [f"--platform=manylinux{tag}_x86_64" for tag in ("2014", "_2_24", "_2_27", "_2_28")]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, place, *platforms, requirement],
        check=True,
    )
    (wheel,) = place.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".so" in name or "/bin/" in name]
        return [Path(archive.extract(name, place)) for name in names]


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def cuobjdump(program: Path, library: Path) -> bool:
    """Both listings; whether the program could read the library."""
    done = [
        subprocess.run([program, option, library], capture_output=True, text=True, check=False)
        for option in ("--list-elf", "--list-ptx")
    ]
    return not any(run.returncode or "fatal" in run.stderr for run in done)


def measure(program: Path, libraries: list[Path]) -> list[Timing]:
    """Every library with GPU code that cuobjdump can read."""
    timings = []
    for library in libraries:
        hash_file(library, xxh3)  # into the page cache
        holds = any(kernels.scan(library).with_code())
        if holds and cuobjdump(program, library):
            ours = best(lambda path=library: kernels.scan(path))
            theirs = best(lambda path=library: cuobjdump(program, path))
            timings.append(Timing(library, ours, theirs))
    return timings


def report(timings: list[Timing]) -> None:
    """Print the table."""
    print(f"{'library':48}{'MB':>8}{'ours, s':>10}{'cuobjdump, s':>14}{'ratio':>8}")
    for one in timings:
        size = one.path.stat().st_size / 1e6
        print(f"{one.path.name:48}{size:8.1f}{one.ours:10.4f}{one.theirs:14.3f}{one.ratio:7.0f}x")
    ratios = [one.ratio for one in timings]
    total = sum(one.theirs for one in timings) / sum(one.ours for one in timings)
    print(f"ratio: {total:.0f}x over all, median {median(ratios):.0f}x, least {min(ratios):.1f}x")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", type=Path, nargs="*")
    parser.add_argument("--cuobjdump", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-bundle-benchmark-") as name:
        program = options.cuobjdump or fetch(Path(name), TOOL)[0]
        program.chmod(program.stat().st_mode | 0o100)
        libraries = options.libraries or [
            path for wheel in WHEELS for path in fetch(Path(name), wheel) if ".so" in path.name
        ]
        report(measure(program, libraries))


if __name__ == "__main__":
    main()
