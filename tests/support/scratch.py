"""Folders of gigabytes, which must not outlive what needs them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def scratch(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A new folder for the time of a block, whatever happens in it.

    pytest keeps what its factory made until the next run, and a disk for all of it is rare.
    """
    folder = factory.mktemp(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
