"""`bundle doctor`: logs of other machines."""

import gzip
import json

import pytest
from click.testing import CliRunner

from bundler.commands import doctor
from manifests.exitcodes import ExitCode
from tests.support import sickness


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(sickness.by_rule()["uvm-missing"][0].text.encode()))
    return path


def run(*words, stdin=None):
    return CliRunner().invoke(
        doctor.command, [str(word) for word in words], input=stdin, standalone_mode=False
    )


def test_a_log_is_read_and_the_host_is_asked_nothing(log):
    done = run("--log", log)
    assert done.return_value == ExitCode.TARGET, done.output
    assert done.output.startswith("1. uvm-missing (likely)")
    assert "look: ls -l /dev/nvidia-uvm" in done.output and "host:" not in done.output


def test_as_json_and_in_chinese(log):
    done = run("--log", log, "--json", "--lang", "zh")
    (first, *_) = json.loads(done.output)["findings"]
    assert first["id"] == "uvm-missing" and "CUDA 无法初始化" in first["cause"]


def test_from_standard_input():
    done = run("--log", "-", stdin=b"Application startup complete.\n")
    assert done.return_value == ExitCode.OK
    assert "nothing known to be wrong in standard input" in done.output
