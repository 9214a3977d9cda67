"""The installation that is looked at: its commands, its files, its server."""

import contextlib
import http.client
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import placement
from manifests.bundle import Manifest
from tests.gpu.isolated.bare import clean_environment
from tests.gpu.isolated.commands import Clock, Done, Failed, need, run

ROOT = Path(__file__).resolve().parents[3]
#: Of PREFIX/cache: what is compiled while a server starts. Bytecode is made at the installation.
COMPILED = ("triton", "vllm", "torch", "flashinfer", "cuda", "numba", "carried")


@dataclass(frozen=True)
class Site:
    """An installation below `prefix` that serves on `port`."""

    prefix: Path
    port: int
    clock: Clock

    @property
    def release(self) -> str:
        """The release in service, or the only one with an environment."""
        current = placement.current_release(self.prefix)
        if current:
            return current
        for name in placement.installed_releases(self.prefix):
            if not placement.load_manifest(self.prefix, name)[0].model_only:
                return name
        raise Failed(f"{self.prefix} holds no release: run the step install first")

    @property
    def manifest(self) -> Manifest:
        return placement.load_manifest(self.prefix, self.release)[0]

    @property
    def folder(self) -> Path:
        return self.prefix / placement.RELEASES / self.release

    @property
    def python(self) -> Path:
        """Of the environment that serves."""
        return self.folder / "env/bin/python"

    @property
    def runtime(self) -> Path:
        """The Python of bundlectl."""
        return self.folder / "runtime/bin/python"

    @property
    def log(self) -> Path:
        return self.prefix / "state/logs/server.log"

    @property
    def key(self) -> str:
        return (self.prefix / "etc/api-key").read_text().strip()

    def control(self, *words: object, limit: float = 60) -> Done:
        """Run bundlectl, for a JSON document."""
        command = [self.prefix / "bin/bundlectl", *words, "--json"]
        return run(command, self.clock.left(limit), clean_environment())

    def set(self, key: str, value: str | None) -> None:
        """Change serve.toml as an operator does; None goes back to the default."""
        words = ["--unset", key] if value is None else [key, value]
        need(self.control("config", "set", *words), f"config set {' '.join(words)}")

    @contextlib.contextmanager
    def settings(self, **values: str | None) -> Iterator[None]:
        """Settings for a while (`environment__NAME` for a variable), then the defaults."""
        named = {key.replace("__", "."): value for key, value in values.items()}
        wanted = {key: value for key, value in named.items() if value is not None}
        for key, value in wanted.items():
            self.set(key, value)
        try:
            yield
        finally:
            for key in wanted:
                self.control("config", "set", "--unset", key, limit=20)

    def serve(self, model: str, limit: float) -> Done:
        """Start the server with a model, and wait for its first answer."""
        return self.control("use", model, "--release", self.release, limit=limit)

    def stop(self) -> Done:
        """End the server, whatever of it runs."""
        return run(
            [self.prefix / "bin/bundlectl", "stop", "--json"],
            self.clock.left(60),
            clean_environment(),
        )

    def environment(self) -> dict[str, str]:
        """For other programs of the release's environment: nothing is written into it."""
        stack = {
            name: value.replace("{environment}", str(self.folder / "env"))
            for name, value in self.manifest.server.environment.items()
        }
        return {
            **clean_environment(str(self.folder / "env/bin")),
            **stack,
            "LD_LIBRARY_PATH": str(self.folder / "env/server-libs"),
            "PYTHONPYCACHEPREFIX": str(self.prefix / "cache/pycache"),
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_HOST_IP": "127.0.0.1",
        }

    def models(self) -> dict[str, Path]:
        """Installed models by name."""
        found = {}
        for release in placement.installed_releases(self.prefix):
            manifest = placement.load_manifest(self.prefix, release)[0]
            for part in manifest.parts():
                found[part.item.name] = self.prefix / part.folder
        return found

    def forget_compiled(self) -> None:
        """Empty the caches of what was compiled."""
        for name in COMPILED:
            shutil.rmtree(self.prefix / "cache" / name, ignore_errors=True)

    def caches(self) -> dict[str, dict[str, int]]:
        """Files and bytes of each of those caches."""
        found = {}
        for name in (*COMPILED, "pycache", "home"):
            files = [path for path in (self.prefix / "cache" / name).rglob("*") if path.is_file()]
            if files:
                size = sum(path.lstat().st_size for path in files)
                found[name] = {"files": len(files), "bytes": size}
        return found

    def http(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, key: bool = True
    ) -> tuple[int, str, float]:
        """Status, text and seconds of a request through the front."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.clock.left(60))
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {self.key}"
        begun = time.monotonic()
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            return answer.status, text, round(time.monotonic() - begun, 3)
