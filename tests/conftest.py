"""Fixtures that several rooms share."""

import shutil
from pathlib import Path

import pytest

from tests.support import small


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
