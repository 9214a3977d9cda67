"""The same vLLM as somebody would start it by hand: its own defaults, no front, no supervisor."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.isolated.commands import Failed
from tests.gpu.isolated.installed import Site
from tests.gpu.isolated.load import Target

NAME = "by-hand"
#: Where a server without our variables keeps what it compiles, below its home (vllm/envs.py,
#: triton/runtime/cache.py), and which of our caches holds the like.
_SEEDS = {"triton": ".triton/cache", "vllm": ".cache/vllm", "flashinfer": ".cache/flashinfer"}


@contextlib.contextmanager
def server(
    site: Site, model: Path, port: int, also: Sequence[str], home: Path, *, seeded: bool
) -> Iterator[tuple[Target, dict[str, Any]]]:
    """A server on a port of its own, and how it came up; ended with the block.

    `seeded`: with a copy of what our server has compiled, so that both run the same kernels.
    Raises Failed where it does not answer in time.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name, place in _SEEDS.items() if seeded else ():
        if (site.prefix / "cache" / name).is_dir():
            shutil.copytree(site.prefix / "cache" / name, home / place)
    words = [
        *(str(site.python), "-s", "-m", site.manifest.server.module),
        *("--model", str(model), "--served-model-name", NAME),
        *("--host", "127.0.0.1", "--port", str(port), *also),
    ]
    log, begun = home / "server.log", time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**site.environment(), "HOME": str(home)},
            cwd=home,
            start_new_session=True,
        )
    try:
        wait(process, port, site)
        yield (
            Target("127.0.0.1", port, NAME),
            {
                "words": words[3:],
                "seconds_to_health": round(time.monotonic() - begun, 1),
                "log": str(log),
            },
        )
    except Failed as error:
        error.record["log_end"] = log.read_text(errors="replace")[-3000:]
        raise
    finally:
        end(process)


def wait(process: "subprocess.Popen[bytes]", port: int, site: Site) -> None:
    deadline = time.monotonic() + site.clock.left(240)
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failed(f"the server started by hand ended with {process.returncode}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.5)
    raise Failed("the server started by hand did not come up in time")


def end(process: "subprocess.Popen[bytes]") -> None:
    """End it with all its processes, which are in one session."""
    for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
