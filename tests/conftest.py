"""Fixtures that several rooms share."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import connected, small

# A shell starts background jobs with SIGINT ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def workplace(tmp_path_factory):
    """A connected machine with a tiny model, a small stack, and a cache that is kept for all."""
    return small.workplace(tmp_path_factory.mktemp("workplace"))


@pytest.fixture(scope="session")
def small_bundle(workplace, tmp_path_factory) -> Path:
    """The small bundle's folder. Shared: copy it before changing it (see `own_bundle`)."""
    return workplace.create(tmp_path_factory.mktemp("media"))


@pytest.fixture
def own_bundle(small_bundle, tmp_path) -> Path:
    """A copy of the small bundle that a test may damage."""
    return Path(shutil.copytree(small_bundle, tmp_path / small_bundle.name))


@pytest.fixture(scope="session")
def bench(workplace, tmp_path_factory) -> connected.Bench:
    """A connected machine with a warm cache. Shared: take its `own_cache` before harming that."""
    return connected.bench(workplace, tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session")
def namespace() -> tuple[str, ...]:
    """The start of a command that runs the rest with mounts and a network of its own."""
    own = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make namespaces")
    return own
