"""Fixtures of the runs of whole commands."""

import os
import subprocess

import pytest

from tests.support import connected


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
