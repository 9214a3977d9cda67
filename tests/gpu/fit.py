"""Compare what `manifests.fit` foretells of a model with what a real vLLM says at its start.

Run by hand on a host with a GPU (see README.md). Weights are noise (`--load-format dummy`), so that
a published config.json is all that a model needs. One JSON document a line for each model; status 1
where vLLM gave no figures. Standard library only, beside this repository.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bundler.tinymodel import tokenizer
from manifests.fit import Fit, Settings, Shape, fit, pages, settings_of
from manifests.fit.tables import tables

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[2]
#: Lines of vLLM 0.19.1 to 0.33.0 (vllm/v1/worker/gpu_worker.py, gpu_model_runner.py,
#: vllm/v1/core/kv_cache_utils.py, vllm/utils/mem_utils.py; the last at VLLM_LOGGING_LEVEL=DEBUG).
#: Name → pattern and how many of its unit make a byte, a token or a request.
LINES = {
    "weights": (r"Model loading took ([\d.]+) GiB", GIB),
    "cache": (r"Available KV cache memory: (-?[\d.]+) GiB", GIB),
    "tokens": (r"KV cache size: ([\d,]+) tokens", 1),
    "concurrency": (r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", 1),
    "block": (r"Setting attention block size to (\d+) tokens", 1),
    "usable": (r"Requested memory: [\d.]+ \(util\), ([\d.]+) GiB", GIB),
    "activations": (r"torch peak memory increase: ([\d.]+)GiB", GIB),
    "context": (r"non-torch forward increase memory: (-?[\d.]+)GiB", GIB),
    "graphs_estimated": (r"Estimated CUDA graph memory: ([\d.]+) GiB", GIB),
    "graphs": (r"Graph capturing finished in .* took (-?[\d.]+) GiB", GIB),
    "profile_seconds": (r"Memory profiling takes ([\d.]+) seconds", 1),
}
#: Triton tries every way to compile a kernel at its first use, which takes a minute or two for each
#: model; what a kernel needs of memory hardly depends on the way. Python runs this before all else.
UNTUNED = """
import importlib.abc, importlib.util, sys

class Untuned(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    name = "triton.runtime.autotuner"

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        self.execute, found.loader.exec_module = found.loader.exec_module, self.load
        return found

    def load(self, module):
        self.execute(module)
        begin = module.Autotuner.__init__
        def __init__(self, *given, **named):
            begin(self, *given, **named)
            self.configs = self.configs[:1]
        module.Autotuner.__init__ = __init__

sys.meta_path.insert(0, Untuned())
"""
#: What ends a start that gave no figures, as far as it says so.
TROUBLE = re.compile(r"(?:^|\s)((?:[A-Za-z_.]+Error|torch\.\S*Error): .*)")


def measured(log: str) -> dict[str, int | float]:
    """The figures in a server's log: bytes, tokens, requests, seconds; of several ranks one's."""
    found: dict[str, int | float] = {}
    for name, (pattern, unit) in LINES.items():
        if line := re.search(pattern, log):
            value = float(line[1].replace(",", "")) * unit
            found[name] = value if name in ("concurrency", "profile_seconds") else round(value)
    return found


def predicted(found: Fit, shape: Shape, settings: Settings, length: int) -> dict[str, int | float]:
    """The same figures before the start."""
    cut = cut_of(found, shape, settings)
    concurrency = cut.count(found.room.cache) / cut.blocks(length)
    return {
        "weights": found.room.weights,
        "cache": found.room.cache,
        "tokens": int(concurrency * length),
        "concurrency": round(concurrency, 2),
        "block": cut.tokens,
        "usable": found.room.usable,
        "overhead": found.room.overhead,
    }


def cut_of(found: Fit, shape: Shape, settings: Settings) -> Any:
    return pages(shape, found.room.tensor_parallel, prefix_caching=settings.prefix_caching)


def ratios(real: dict[str, Any], told: dict[str, Any]) -> dict[str, float]:
    """Measured by predicted, where both are known."""
    both = [name for name in told if name in real and told[name]]
    return {name: round(real[name] / told[name], 4) for name in both}


def read_shape(path: Path) -> tuple[Shape, str]:
    """The model of a configuration, and where the size of its weights comes from."""
    known = {found.repository.rpartition("/")[2]: found.weights for found in tables().checkpoints}
    weights = known.get(path.stem, 0)
    shape = Shape.from_config(json.loads(path.read_text()), weights)
    if shape is None:
        raise SystemExit(f"{path}: manifests.fit knows nothing about this class or these weights")
    return shape, "manifests/fit.toml" if weights else "counted"


def write_model(config: Path, folder: Path) -> Path:
    """A model's folder without weights: the configuration, and the tiny model's tokenizer."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(config, folder / "config.json")
    for name, document in tokenizer.files(32768).items():
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / name).write_text(text)
    return folder


def gpus() -> list[tuple[str, int, int]]:
    """Name, bytes and bytes in use of each GPU, as nvidia-smi counts them; none without it."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.used"]
    try:
        text = subprocess.run(
            [*query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line]
    return [(name, int(total) << 20, int(used) << 20) for name, total, used in rows]


def server_arguments(
    model: Path, length: int, parallel: int, options: argparse.Namespace
) -> list[str]:
    flags = [
        *("--model", str(model), "--load-format", "dummy", "--served-model-name", "noise"),
        *("--host", "127.0.0.1", "--port", str(options.port)),
        *("--max-model-len", str(length), "--tensor-parallel-size", str(parallel)),
        *("--gpu-memory-utilization", f"{options.utilization / 100:.2f}"),
    ]
    if not options.no_prefix_caching:
        flags.append("--enable-prefix-caching")
    if not options.pictures:
        flags.append("--language-model-only")
    if not options.graphs:
        flags.append("--enforce-eager")
    return [*flags, *options.also]


def environment(work: Path, tuned: bool) -> dict[str, str]:
    home, early = work / "home", work / "early"
    for folder in (home, early):
        folder.mkdir(parents=True, exist_ok=True)
    (early / "sitecustomize.py").write_text("" if tuned else UNTUNED)
    fixed = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "PYTHONUNBUFFERED": "1",
    }
    # This repository is not the server's business.
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    kept = [path for path in paths if Path(path).resolve() != ROOT]
    return {**os.environ, **fixed, "PYTHONPATH": ":".join([str(early), *kept])}


@contextlib.contextmanager
def server(
    flags: Sequence[str], log: Path, options: argparse.Namespace
) -> Iterator[subprocess.Popen[bytes]]:
    """A server with all its processes, which are ended whatever happens."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [options.python, "-m", "vllm.entrypoints.openai.api_server", *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(options.work, options.tuned),
            cwd=options.work,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for number, patience in ((signal.SIGTERM, 8), (signal.SIGKILL, 8)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        settle(time.monotonic() + 15)


def settle(deadline: float) -> None:
    """Wait until the driver has taken back what a killed process held."""
    while any(used > 2 * GIB for _, _, used in gpus()) and time.monotonic() < deadline:
        time.sleep(0.5)


def wait(process: subprocess.Popen[bytes], log: Path, done: str, seconds: float) -> str:
    """The log once `done` is in it, or the process has ended, or the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        ended = process.poll() is not None
        text = log.read_text(errors="replace")
        if re.search(done, text) or ended or time.monotonic() > deadline:
            return text
        time.sleep(0.25)


def run(config: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Everything about one model."""
    shape, source = read_shape(config)
    present = gpus()[: options.gpus or None]
    memory = min((total for _, total, _ in present), default=options.memory or 80 * GIB)
    length = min(options.max_model_len, shape.max_length)
    model = write_model(config, options.work / "models" / config.stem)
    plain = server_arguments(model, length, 1, options)
    settings = settings_of(plain)
    found = fit(
        shape,
        gpu_memory=memory,
        gpus=max(1, len(present)),
        utilization=options.utilization,
        settings=settings,
    )
    told = predicted(found, shape, settings, length)
    flags = server_arguments(model, length, found.room.tensor_parallel, options)
    record: dict[str, Any] = {
        "model": config.stem,
        "gpu": [name for name, _, _ in present],
        "gpu_memory": memory,
        "max_model_len": length,
        "flags": flags[2:],
        "weights_from": source,
        "fits": found.fits,
        "suggested": found.max_model_len,
        "predicted": told,
    }
    if options.dry_run:
        return record
    done = r"Maximum concurrency for .*x"
    if options.graphs or options.started:
        done = r"Application startup complete"
    log = options.work / f"{config.stem}.log"
    begun = time.monotonic()
    with server(flags, log, options) as process:
        text = wait(process, log, done, options.seconds)
        record["ended"] = process.poll()
        record["used"] = max((used for _, _, used in gpus()), default=0)
    real = measured(text)
    record |= {
        "seconds": round(time.monotonic() - begun),
        "measured": real,
        "ratio": ratios(real, told),
        "log": str(log),
    }
    if "cache" in real:
        # The arithmetic of blocks by itself: from vLLM's own bytes to its tokens.
        cut = cut_of(found, shape, settings)
        concurrency = cut.count(int(real["cache"])) / cut.blocks(length)
        record["ratio"]["tokens_from_measured_cache"] = round(
            real.get("tokens", 0) / max(1, concurrency * length), 4
        )
        usable = real.get("usable", told["usable"])
        record["measured_overhead"] = usable - real["weights"] - real["cache"]
    if "tokens" not in real:
        record["trouble"] = trouble(text)
    return record


def trouble(text: str) -> list[str]:
    """Lines that say why a start failed; without any, the log's end."""
    lines = [found[1] for line in text.splitlines() if (found := TROUBLE.search(line))]
    return list(dict.fromkeys(lines))[-6:] or text.splitlines()[-6:]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python tests/gpu/fit.py", description=__doc__)
    made.add_argument("configs", nargs="+", type=Path, metavar="CONFIG.json")
    made.add_argument("--python", default=sys.executable, help="interpreter that has vLLM")
    made.add_argument("--work", type=Path, default=Path("/tmp/fit"), help="logs, caches, models")
    made.add_argument("--out", type=Path, help="append the documents to this file, too")
    made.add_argument("--port", type=int, default=8127)
    made.add_argument("--gpus", type=int, default=1, help="how many of the host's (0: all)")
    made.add_argument("--memory", type=int, default=0, help="bytes, where no nvidia-smi is there")
    made.add_argument("--utilization", type=int, default=90, help="per cent of each GPU")
    made.add_argument("--max-model-len", type=int, default=32768)
    made.add_argument("--seconds", type=int, default=140, help="the most that one start may take")
    made.add_argument("--graphs", action="store_true", help="compile and capture CUDA graphs")
    made.add_argument("--pictures", action="store_true", help="keep the vision part")
    made.add_argument("--no-prefix-caching", action="store_true")
    made.add_argument("--tuned", action="store_true", help="let Triton try its kernels, as served")
    made.add_argument("--started", action="store_true", help="wait until it answers requests")
    made.add_argument("--dry-run", action="store_true", help="only what is foretold")
    made.add_argument(
        "--also",
        nargs=argparse.REMAINDER,
        default=["--gdn-prefill-backend", "triton"],
        help="more arguments of the server; last (default: %(default)s)",
    )
    return made


def main() -> int:
    options = parser().parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    failed = False
    for config in options.configs:
        record = run(config.resolve(), options)
        text = json.dumps(record)
        print(text, flush=True)
        if options.out:
            with options.out.open("a") as out:
                out.write(text + "\n")
        failed |= "trouble" in record
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
