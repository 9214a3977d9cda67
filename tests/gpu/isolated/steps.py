"""The steps in their order, each with the seconds that it may take."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.gpu.isolated import serving, setting_up
from tests.gpu.isolated.bench import Bench, Record
from tests.gpu.isolated.trouble import TROUBLES, provoke


@dataclass(frozen=True)
class Step:
    """A step, the seconds that it may take, and whether it makes sense without a GPU."""

    run: Callable[[Bench], Record]
    limit: float
    gpu_only: bool = False


def _start(label: str, large: bool, fresh: bool, eager: bool) -> Callable[[Bench], Record]:
    def step(bench: Bench) -> Record:
        model = bench.large if large else bench.tiny
        return serving.started(bench, label, model, fresh=fresh, eager=eager)

    return step


def _trouble(name: str) -> Callable[[Bench], Record]:
    def step(bench: Bench) -> Record:
        bench.site.stop()
        try:
            return provoke(bench.site, TROUBLES[name], bench.tiny, bench.work)
        finally:
            bench.keep_log(f"trouble-{name}")

    return step


#: A start: of the bundle's own tiny model or of the larger one, with what earlier starts compiled
#: or without, eager or with CUDA graphs.
_STARTS = {
    "eager-first": (False, True, True),
    "eager-again": (False, False, True),
    "graphs-first": (True, True, False),
    "graphs-again": (True, False, False),
}
STEPS: dict[str, Step] = {
    "surroundings": Step(setting_up.surroundings, 40),
    "control": Step(setting_up.control, 40),
    "medium": Step(setting_up.medium, 120),
    "preflight": Step(setting_up.preflight, 60),
    "install": Step(setting_up.install, 240),
    "audit": Step(setting_up.audit, 120),
    "model": Step(setting_up.model, 180),
    "loopback-down": Step(setting_up.loopback_down, 150),
    "eager-first": Step(_start("eager-first", *_STARTS["eager-first"]), 300),
    "eager-again": Step(_start("eager-again", *_STARTS["eager-again"]), 180),
    "graphs-first": Step(_start("graphs-first", *_STARTS["graphs-first"]), 330),
    "graphs-again": Step(_start("graphs-again", *_STARTS["graphs-again"]), 240),
    "kernels": Step(setting_up.kernels, 90, gpu_only=True),
    "throughput": Step(serving.throughput, 400),
    "rehearse": Step(serving.rehearse, 330),
    "pieces": Step(serving.pieces, 30),
    **{
        f"trouble-{name}": Step(_trouble(name), 200, gpu_only=trouble.gpu)
        for name, trouble in TROUBLES.items()
    },
    "end": Step(serving.end, 150),
}
