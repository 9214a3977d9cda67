import subprocess
import sys

import pytest

from bundler.workshop import Workshop
from manifests.errors import FilesystemError, UsageError
from tests.support.small import environment

HOLD = """
import sys
from pathlib import Path
from bundler.workshop import Workshop
with Workshop(Path(sys.argv[1])).scratch("step") as folder:
    (folder / "half").write_text("done")
    print("in", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that is at the step."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "in\n"
    yield process
    process.kill()
    process.communicate()


def test_a_scratch_is_empty_and_gone_afterwards(tmp_path):
    workshop = Workshop(tmp_path / "cache")
    with workshop.scratch("step") as folder:
        assert list(folder.iterdir()) == []
        (folder / "file").write_text("")
    assert not folder.exists()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, UsageError("x")])
def test_a_scratch_is_gone_after_a_failure(tmp_path, kind):
    with pytest.raises(kind if isinstance(kind, type) else type(kind)):  # noqa: SIM117
        with Workshop(tmp_path).scratch("step") as folder:
            (folder / "file").write_text("")
            raise kind
    assert not folder.exists()


def test_two_at_the_same_step(tmp_path, other):
    with (
        pytest.raises(UsageError, match="another `bundle` is at work there") as caught,
        Workshop(tmp_path).scratch("step"),
    ):
        pass
    assert "--cache" in caught.value.mend
    assert (tmp_path / "work/step/half").read_text() == "done"
    with Workshop(tmp_path).scratch("another step"):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path, other):
    other.kill()
    other.wait()
    assert (tmp_path / "work/step/half").exists()
    with Workshop(tmp_path).scratch("step") as folder:
        assert list(folder.iterdir()) == []


def test_a_file_in_the_place_of_the_cache(tmp_path):
    (tmp_path / "cache").write_text("")
    with (
        pytest.raises(FilesystemError, match="Not a directory") as caught,
        Workshop(tmp_path / "cache").scratch("step"),
    ):
        pass
    assert "a file stands where a folder is needed" in caught.value.mend
