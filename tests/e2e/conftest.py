"""One run of ./demo for all end-to-end tests."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.scratch import scratch
from tests.support.small import ROOT, free_port


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The transcript of ./demo in a copy of the repository, and the folder that it left."""
    ignored = shutil.ignore_patterns(".git", ".venv", "demo-run", "__pycache__", ".*_cache")
    with scratch(tmp_path_factory, "clone") as folder:
        copy = Path(shutil.copytree(ROOT, folder / "repository", ignore=ignored))
        done = subprocess.run(
            ["./demo"],
            cwd=copy,
            env={**os.environ, "DEMO_PORT": str(free_port())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        yield done.stdout, copy / "demo-run"
