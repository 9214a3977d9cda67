"""Places to install to, and installations that several tests share. No server outlives them."""

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from tests.support.scratch import scratch
from tests.support.small import free_port, install
from tests.support.variants import manifest_of, variant


def marked(prefix: Path) -> dict[int, str]:
    """Processes of the installations below a folder: what each of them is, by its mark."""
    mark = b"BUNDLECTL_INSTANCE=" + os.fsencode(prefix)
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for item in variables:
            if item.startswith(mark):
                found[int(folder.name)] = Path(os.fsdecode(item)).stem
    return found


def servers(prefix: Path) -> list[int]:
    """Processes of the servers installed below a folder."""
    return [pid for pid, name in marked(prefix).items() if name.startswith("server")]


def keepers(prefix: Path) -> list[int]:
    """Processes that keep them."""
    return [pid for pid, name in marked(prefix).items() if name == "keeper"]


def end_servers(prefix: Path) -> None:
    for pid in (*keepers(prefix), *servers(prefix)):  # else they are started again
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def prefix(tmp_path):
    """A folder that does not exist yet."""
    yield tmp_path / "host"
    end_servers(tmp_path)


@pytest.fixture(scope="session")
def open_media(small_bundle):
    """The small bundle where every account can read it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(small_bundle, Path(folder) / small_bundle.name))


@pytest.fixture(scope="session")
def newer_bundle(small_bundle, tmp_path_factory) -> Path:
    """A later bundle with the same model."""
    sequence = manifest_of(small_bundle)[0].sequence + 1
    output = tmp_path_factory.mktemp("newer")
    return variant(small_bundle, output, name="small+newer", sequence=sequence)


@pytest.fixture(scope="module")
def host(small_bundle, tmp_path_factory):
    """An installation that serves."""
    with scratch(tmp_path_factory, "host") as root:
        done = install(small_bundle, "--prefix", str(root / "prefix"), "--port", str(free_port()))
        assert done.returncode == 0, done.stderr
        yield root / "prefix"
        end_servers(root)
