"""A bundle on a GPU host that nothing can reach: install it, run it, measure it, provoke it.

Run as root in this repository's folder, by any Python from 3.11 on. Every step writes one JSON line
to --out as soon as it is done; a step that has succeeded is passed over the next time (or named
with --steps, which repeats it). All of it happens in a namespace without a network and without
compilers, which is gone afterwards; every server that was started is ended. See README.md.
"""

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.gpu.isolated import bare
from tests.gpu.isolated.bench import Bench
from tests.gpu.isolated.commands import Clock, Failed
from tests.gpu.isolated.figures import Figures
from tests.gpu.isolated.installed import Site
from tests.gpu.isolated.steps import STEPS

#: Seconds that are kept for the last words: ending servers, packing logs.
_RESERVE = 15


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m tests.gpu.isolated", description=__doc__)
    made.add_argument("--media", type=Path, required=True, help="the bundle's folder")
    made.add_argument("--prefix", type=Path, default=Path("/opt/vllm-bundle"))
    made.add_argument("--port", type=int, default=8000)
    made.add_argument("--into-python", type=Path, help="for an overlay: the environment's Python")
    made.add_argument(
        "--model-parameters", type=float, default=1.7e9, help="of the model made here"
    )
    made.add_argument("--out", type=Path, help="append the JSON lines to this file; logs beside it")
    made.add_argument("--work", type=Path, default=Path("/tmp/isolated"), help="kept between calls")
    made.add_argument("--steps", default="", metavar="A,B", help=f"of: {', '.join(STEPS)}")
    made.add_argument("--skip", default="", metavar="A,B", help="leave these out")
    made.add_argument("--deadline", type=float, default=3600, help="seconds of the whole call")
    made.add_argument("--cpu", action="store_true", help="no GPU: leave out what needs one")
    made.add_argument("--streams", default="1,16,64", help="of the load, each size by itself")
    made.add_argument("--rounds", type=int, default=5, help="readings of each size and server")
    made.add_argument("--answer", type=int, default=256, help="tokens of each answer of the load")
    made.add_argument("--piece", type=int, default=0, help="the first piece that is handed back")
    made.add_argument("--as-it-is", action="store_true", help="no namespace: network, compilers")
    made.add_argument(
        "--by-hand",
        nargs=argparse.REMAINDER,
        default=["--gdn-prefill-backend", "triton"],
        help="arguments of the server started by hand; last (default: %(default)s, without which "
        "it does not serve Qwen3.5 on a Hopper GPU without nvcc)",
    )
    return made


def wanted(options: argparse.Namespace, done: frozenset[str]) -> list[str]:
    """The steps of this call, in their order. Raises SystemExit for one that does not exist."""
    named, skipped = (
        [name for name in text.split(",") if name] for text in (options.steps, options.skip)
    )
    if unknown := [name for name in (*named, *skipped) if name not in STEPS]:
        raise SystemExit(f"no such step: {', '.join(unknown)}; there are: {', '.join(STEPS)}")
    chosen = named or [name for name in STEPS if name not in done]
    return [
        name
        for name, step in STEPS.items()
        if name in chosen and name not in skipped and not (options.cpu and step.gpu_only)
    ]


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Cut off what outlasts its limits all the same."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def perform(name: str, bench: Bench, limit: float) -> dict[str, Any]:
    """One step's record, whatever happens in it."""
    begun = time.monotonic()
    record: dict[str, Any] = {"step": name, "ok": False}
    try:
        with alarm(limit + 10):
            record |= {"ok": True, "found": STEPS[name].run(bench)}
    except Failed as error:
        record |= {"why": str(error), "found": error.record}
    except Exception as error:  # the next steps are worth their time all the same
        lines = traceback.format_exc().splitlines()[-6:]
        record |= {"why": f"{type(error).__name__}: {error}", "found": {"traceback": lines}}
    record["seconds"] = round(time.monotonic() - begun, 2)
    return record


def bench_of(options: argparse.Namespace, clock: Clock, namespace: dict[str, object]) -> Bench:
    return Bench(
        media=options.media.resolve(),
        site=Site(options.prefix, options.port, clock),
        work=options.work,
        hand_back=options.out.parent if options.out else None,
        into_python=options.into_python,
        parameters=options.model_parameters,
        gpu=not options.cpu,
        streams=tuple(int(size) for size in options.streams.split(",")),
        rounds=options.rounds,
        answer=options.answer,
        by_hand=tuple(options.by_hand),
        piece=options.piece,
        bare=namespace,
    )


def summary(record: dict[str, Any]) -> str:
    """A line for a person who watches."""
    state = "ok" if record["ok"] else f"FAILED: {record.get('why', '')}"
    return f"{record['step']:18} {record['seconds']:7.1f} s  {state}"


def pack_logs(work: Path, out: Path | None) -> None:
    logs = work / "logs"
    if out is not None and logs.is_dir():
        with tarfile.open(out.parent / "logs.tar.gz", "w:gz") as archive:
            archive.add(logs, "logs")


def stop_all(options: argparse.Namespace) -> None:
    control = options.prefix / "bin/bundlectl"
    if control.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [str(control), "stop", "--quiet"],
                env=bare.clean_environment(),
                timeout=60,
                check=False,
            )


def main() -> int:
    options = parser().parse_args()
    end = time.monotonic() + options.deadline
    namespace: dict[str, object] = {"route_out": "as it is"}
    if not options.as_it_is:
        bare.enter([sys.executable, "-m", "tests.gpu.isolated", *sys.argv[1:]])
        namespace = bare.furnish(options.into_python, options.prefix)
    options.work.mkdir(parents=True, exist_ok=True)
    figures = Figures(options.out, options.work / "figures.jsonl")
    failed = False
    try:
        for name in wanted(options, figures.done()):
            left = end - time.monotonic() - _RESERVE
            if left < 10:
                print(f"{name:18} left for another call", flush=True)
                continue
            limit = min(STEPS[name].limit, left)
            record = perform(name, bench_of(options, Clock(limit), namespace), limit)
            figures.add(record)
            print(summary(record), flush=True)
            failed |= not record["ok"]
    finally:
        stop_all(options)
        pack_logs(options.work, options.out)
        shutil.rmtree(options.work / "caches-away", ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
