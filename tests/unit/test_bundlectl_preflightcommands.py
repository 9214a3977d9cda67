"""The command `preflight` as a person or a machine reads it: one document, one exit status."""

import json
import socket

import pytest

from bundlectl.arguments import parser
from bundlectl.call import Run
from bundlectl.checks import CHECKS
from bundlectl.preflightcommands import preflight
from manifests.exitcodes import ExitCode
from tests.unit.test_bundlectl_models import layout
from tests.unit.test_bundlectl_readiness import installed

__all__ = ["layout"]


def run(layout, *words):
    return preflight(
        Run(parser().parse_args(["preflight", "--prefix", str(layout.prefix), *words]))
    )


@pytest.fixture
def taken(layout):
    """A port of a release that another program listens on."""
    installed(layout)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield str(holder.getsockname()[1])


@pytest.mark.parametrize("more", [(), ("--all",)])
def test_a_host_that_does_not_fit_is_one_document(layout, taken, capsys, more):
    code = run(layout, "--json", "--port", taken, *more)
    record = json.loads(capsys.readouterr().out)
    assert code == record["exit_code"] == ExitCode.TARGET
    assert record["error"].startswith("this host does not fit: port: ")
    assert record["mend"]
    assert record["subject"].startswith("one-")
    assert len(record["findings"]) == len(CHECKS)
    (stop,) = [one for one in record["findings"] if not one["passed"] and one["level"] == "stop"]
    assert stop["name"] == "port"


def test_a_host_that_fits(layout, taken, capsys):
    assert run(layout, "--json", "--port", taken, "--ignore", "port") == ExitCode.OK
    assert set(json.loads(capsys.readouterr().out)) == {"subject", "findings"}


def test_the_table_is_one_document(layout, capsys):
    assert run(layout, "--json", "--list") == ExitCode.OK
    assert len(json.loads(capsys.readouterr().out)["checks"]) == len(CHECKS)


def test_a_person_reads_the_report_then_the_error(layout, taken, capsys):
    assert run(layout, "--port", taken) == ExitCode.TARGET
    told = capsys.readouterr()
    assert told.out.startswith("stops:\n  port: ")
    assert told.err.startswith("error: this host does not fit: port: ")
