"""Mounts for a test that root runs; every one of them is gone afterwards."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """Mount something on a file, or a folder, made where it is missing: `mount WORDS FOLDER`."""
    if not folder.exists():
        folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", *words, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this machine does not let root mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily, where a process that a failing test left behind still holds it.
        subprocess.run(["umount", "-l", str(folder)], check=True)


def tmpfs(folder: Path, *options: str) -> AbstractContextManager[Path]:
    """A file system in memory with options such as size=4m."""
    return mounted(folder, "-t", "tmpfs", "-o", ",".join(options) or "defaults", "tmpfs")
