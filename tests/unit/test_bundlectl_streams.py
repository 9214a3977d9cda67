"""The command line with standard streams that are closed, full, or read by nobody any more."""

import json
import os
import subprocess
import sys

import pytest

from manifests.console import READER_LEFT
from tests.support.small import ROOT

PROGRAM = f'"{sys.executable}" -B -X utf8 -m bundlectl'


def shell(line, tmp_path):
    """`$it` is bundlectl on a folder without an installation, where it ends with 6."""
    program = f"it='{PROGRAM} --prefix {tmp_path}/none'; {line}"
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/installer"}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program.replace('$it', 'eval $it')}"],
        env=environ, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("words", ["status", "config show --json"])
def test_a_reader_that_has_left_ends_the_run_as_its_signal_would(words, tmp_path):
    done = shell(f"$it {words} 2>{tmp_path}/err | sleep 0; echo ${{PIPESTATUS[0]}}", tmp_path)
    # `config show` of nothing is an error, which without --json goes to standard error.
    assert done.stdout == f"{READER_LEFT}\n"
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.parametrize("words", ["status", "config show --json"])
def test_results_that_can_not_be_written_are_an_error_with_its_mend(words, tmp_path):
    done = shell(f"$it {words} >/dev/full", tmp_path)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.returncode == 4


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "2>&- <&-", "2>/dev/full"])
def test_a_closed_stream_is_none_that_anybody_misses(closed, tmp_path):
    done = shell(f"$it status --json {closed}", tmp_path)
    assert done.returncode == 6
    assert json.loads(done.stdout)["running"] is False


def test_what_belongs_to_standard_error_goes_nowhere_else(tmp_path):
    done = shell("$it uninstall 2>&- <&-", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_closed_standard_input_is_an_empty_log(tmp_path):
    assert shell("$it doctor --log - <&-", tmp_path).returncode == 0


def test_a_name_that_is_no_utf_8_is_shown_as_it_can_be(tmp_path):
    done = shell("$it doctor --json --log $(printf '\\377')", tmp_path)
    assert done.returncode == 2
    assert "\\udcff" in json.loads(done.stdout)["error"].encode("unicode_escape").decode()
    done = shell("$it doctor --log $(printf '\\377')", tmp_path)
    assert "error: \\udcff: no such file" in done.stderr
