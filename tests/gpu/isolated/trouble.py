"""Deliberate trouble, and what the start and `bundlectl doctor` say of it."""

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu.isolated.commands import Failed
from tests.gpu.isolated.installed import COMPILED, Site

#: Takes all but so many bytes of the first GPU, says so, and waits to be ended.
HOLD = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", held.numel(), flush=True)
sys.stdin.read()
"""
#: Bytes that are left: too few for a CUDA context and a model.
_LEFT = 2 << 30


@dataclass(frozen=True)
class Trouble:
    """`settings` of serve.toml as Site.settings takes them; what else is done before the start."""

    about: str
    settings: dict[str, str]
    memory_held: bool = False
    caches_away: bool = False
    gpu: bool = True  # makes sense only where there is one


TROUBLES = {
    "memory": Trouble("another process holds the GPU's memory", {}, memory_held=True),
    "length": Trouble(
        "longer requests than the model can take", {"max_model_len": "99000000"}, gpu=False
    ),
    "compiler": Trouble(
        "no C compiler, and nothing compiled before",
        {"environment__CC": "/nonexistent/cc"},
        caches_away=True,
    ),
    "backend": Trouble(
        "the default back end, which wants nvcc and ninja",
        {"extra_arguments": '["--gdn-prefill-backend", "flashinfer"]'},
    ),
    "option": Trouble(
        "a mistyped option", {"extra_arguments": '["--max-num-batched-token", "2048"]'}, gpu=False
    ),
}


def provoke(site: Site, trouble: Trouble, model: str, work: Path) -> dict[str, Any]:
    """Make the trouble, start, ask the doctor, and put everything back.

    Raises Failed where the server came up all the same: then there was no trouble.
    """
    with contextlib.ExitStack() as stack:
        if trouble.memory_held:
            stack.enter_context(memory_held(site))
        if trouble.caches_away:
            stack.enter_context(caches_away(site, work / "caches-away"))
        # A setting may be refused at once, which is an answer, too.
        refused: Failed | None = None
        try:
            stack.enter_context(site.settings(**trouble.settings))
        except Failed as error:
            refused = error
        if refused is not None:
            return {"about": trouble.about, "refused": refused.record}
        started = site.serve(model, 150)
        doctor = site.control("doctor", "--all", limit=60)
        site.stop()
    record = {
        "about": trouble.about,
        "start": started.record(),
        "doctor": doctor.record(),
        "causes": causes(doctor.answer),
    }
    if started.code == 0:
        raise Failed(f"it started all the same: {trouble.about}", record)
    return record


def causes(answer: dict[str, Any]) -> list[str]:
    """What the doctor names, the likeliest first; preflight's findings after it."""
    named = [f"{one['id']} ({one['standing']})" for one in answer.get("findings", [])]
    return [*named, *(f"preflight: {one['name']}" for one in answer.get("preflight", []))]


@contextlib.contextmanager
def memory_held(site: Site) -> Iterator[None]:
    """Another process on the GPU; ended with the block."""
    process = subprocess.Popen(
        [str(site.python), "-s", "-B", "-c", HOLD, str(_LEFT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=site.environment(),
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("held"):
            raise Failed("no memory could be held", {"said": line + process.stdout.read()[-2000:]})
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)


@contextlib.contextmanager
def caches_away(site: Site, place: Path) -> Iterator[None]:
    """Move what was compiled out of the server's sight, and back."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    moved = [name for name in COMPILED if (site.prefix / "cache" / name).exists()]
    for name in moved:
        (site.prefix / "cache" / name).rename(place / name)
    try:
        yield
    finally:
        for name in moved:
            shutil.rmtree(site.prefix / "cache" / name, ignore_errors=True)
            (place / name).rename(site.prefix / "cache" / name)
