"""`python -m tests.fuzz`: see the package."""

import argparse
import hashlib
import sys
import time
import traceback
from itertools import count
from pathlib import Path

from tests.fuzz.mutate import mutations
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

#: Seconds that one small input may take; the slowest sound one takes a few milliseconds.
PATIENCE = 5.0


def main() -> int:
    arguments = _arguments()
    names = list(TARGETS) if arguments.target == "all" else [arguments.target]
    if arguments.files:
        for file in arguments.files:
            TARGETS[names[0]](file.read_bytes())
        return 0
    if arguments.guided:
        return _guided(names[0], arguments.seconds)
    return int(sum(_unguided(name, arguments.seconds) for name in names) > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=["all", *TARGETS])
    parser.add_argument("files", nargs="*", type=Path, help="inputs to repeat")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    arguments = parser.parse_args()
    if arguments.target == "all" and (arguments.guided or arguments.files):
        parser.error("name one target for that")
    return arguments


def _unguided(name: str, seconds: float) -> bool:
    """Whether anything was found."""
    ends, tried = time.monotonic() + seconds, 0
    for round_ in count():
        for data in mutations(name, 1000, seed=round_):
            started = time.monotonic()
            if started > ends:
                print(f"{name}: {tried} inputs, nothing found")
                return False
            tried += 1
            try:
                TARGETS[name](data)
                problem = ""
            except Exception:
                problem = traceback.format_exc()
            if time.monotonic() - started > PATIENCE:
                problem = f"took {time.monotonic() - started:.1f} s"
            if problem:
                file = Path(f"crash-{name}-{hashlib.sha256(data).hexdigest()[:12]}")
                file.write_bytes(data)
                print(f"{name}: {file}\n{problem}")
                return True
    return False


def _guided(name: str, seconds: int) -> int:
    import atheris

    folder = Path(f"corpus-{name}")
    folder.mkdir(exist_ok=True)
    for data in SEEDS[name]:
        (folder / hashlib.sha256(data).hexdigest()).write_bytes(data)
    atheris.instrument_all()
    words = [f"-max_total_time={seconds}", f"-timeout={int(PATIENCE)}", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *words, str(folder)], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
