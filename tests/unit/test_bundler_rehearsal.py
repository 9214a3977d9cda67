"""Rehearsals, as far as no server is wanted for them."""

import signal
import subprocess
import sys
import time

import pytest

from bundler import rehearsal
from bundler.rehearsal import Wish
from manifests.console import Console
from manifests.errors import UsageError
from tests.support import deltas
from tests.support.simulator import Simulator

_RUN = "import sys; from bundler import rehearsal; rehearsal._run(sys.argv[1:])"


def test_an_interrupt_lets_the_installer_undo_what_it_began(tmp_path):
    script = tmp_path / "install.sh"
    script.write_text(
        f"trap 'sleep 1; touch {tmp_path}/undone; exit 130' INT\n"
        f"touch {tmp_path}/begun\nwhile :; do sleep 0.05; done\n"
    )
    with subprocess.Popen([sys.executable, "-c", _RUN, "sh", str(script)]) as running:
        end = time.monotonic() + 30
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
    assert (tmp_path / "undone").exists()


def test_a_delta_is_refused_before_anything_is_tried(tmp_path):
    base = Simulator(name="old", environment=deltas.OLD)
    folder, _ = deltas.write(Simulator(name="new", environment=deltas.NEW), base, tmp_path)
    with pytest.raises(UsageError, match="is a delta"):
        rehearsal.rehearse(folder, Wish(), Console())


@pytest.mark.parametrize("name", [".", "missing/file", "medium"])
def test_caches_that_could_not_be_written_are_told_before(tmp_path, name):
    folder, _ = Simulator().write(tmp_path / "medium")
    with pytest.raises(UsageError, match=r"a folder|nothing can be written"):
        rehearsal.rehearse(folder, Wish(keep_caches=tmp_path / name), Console())
