"""Fixtures that several rooms share."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import connected, small

# A shell starts background jobs with SIGINT ignored, nohup all with SIGHUP, and every child would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How fast an example is says how busy the machine is, not whether the code is right.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def common_bench(tmp_path_factory) -> connected.Bench:
    """A connected machine that all processes of this run share: only to be read."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return connected.prepared(shared / "bench")


@pytest.fixture(scope="session")
def bench(common_bench, tmp_path_factory) -> connected.Bench:
    """A connected machine with a warm cache. Shared: take its `own_cache` before harming that."""
    return common_bench.with_own_cache(tmp_path_factory.mktemp("bench") / "cache")


@pytest.fixture(scope="session")
def workplace(bench) -> small.Workplace:
    """The tiny model, the small stack, and the cache, of that machine."""
    return bench.place


@pytest.fixture(scope="session")
def small_bundle(common_bench) -> Path:
    """The small bundle's folder. Shared: copy it before changing it (see `own_bundle`)."""
    (folder,) = (common_bench.lock.parent / "media").iterdir()
    return folder


@pytest.fixture
def own_bundle(small_bundle, tmp_path) -> Path:
    """A copy of the small bundle that a test may damage."""
    return Path(shutil.copytree(small_bundle, tmp_path / small_bundle.name))


@pytest.fixture(scope="session")
def namespace() -> tuple[str, ...]:
    """The start of a command that runs the rest with mounts and a network of its own."""
    own = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make namespaces")
    return own
