"""What a second account is told, who may read an installation and not what its servers keep."""

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from bundlectl import auditrecord, cli
from bundlectl.layout import Layout
from manifests.audit.report import Report
from manifests.exitcodes import ExitCode

WHY = "the state is not visible to this account (run it as "
NOBODY = 65534  # of every distribution


@contextmanager
def another_account(layout):
    """Another one where the tests run as root; else this one, without its rights."""
    if os.geteuid() != 0:
        layout.run.chmod(0)
        layout.config_file.chmod(0)
        yield
        layout.run.chmod(0o700)
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def layout():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other accounts
        Path(folder).chmod(0o755)
        made = Layout(Path(folder) / "prefix")
        made.create()
        made.config_file.write_text("")
        made.config_file.chmod(0o600)
        made.run.joinpath("server-1.json").write_text("{}")
        log = made.logs / "server.log"
        log.write_text("secret words of the first account")
        log.chmod(0o600 if os.geteuid() == 0 else 0)
        yield made


def asked(layout, capsys, *words):
    with another_account(layout):
        status = cli.main([*words, "--prefix", str(layout.prefix)])
    return status, capsys.readouterr()


def test_status_says_who_can_see_it_and_what_can_be_seen(layout, capsys):
    auditrecord.keep(layout, Report("installation", str(layout.prefix), (), 3, 9, ()))
    status, told = asked(layout, capsys, "status")
    assert status == ExitCode.FILESYSTEM
    assert told.out.startswith(WHY)
    assert "release in service: none" in told.out
    assert "last recorded audit: " in told.out
    assert "mend" not in told.err
    status, told = asked(layout, capsys, "status", "--json")
    record = json.loads(told.out)
    assert record["running"] is None
    assert record["problem"].startswith(WHY)


def test_models_are_listed_all_the_same(layout, capsys):
    status, told = asked(layout, capsys, "models")
    assert status == ExitCode.OK
    assert told.out == "no model is installed\n"
    assert WHY in told.err


def test_doctor_looks_at_what_it_may(layout, capsys):
    status, told = asked(layout, capsys, "doctor")
    assert status == ExitCode.FILESYSTEM
    assert told.out.startswith(WHY)
    assert "no server is running" not in told.out
    status, told = asked(layout, capsys, "doctor", "--json")
    assert json.loads(told.out)["running"] is None


def test_the_owner_is_told_everything(layout, capsys):
    assert cli.main(["status", "--prefix", str(layout.prefix)]) == ExitCode.SERVER
    assert WHY not in capsys.readouterr().out


def test_status_tells_of_the_last_audit(layout, capsys):
    auditrecord.keep(layout, Report("installation", str(layout.prefix), (), 3, 9, ()))
    assert cli.main(["status", "--json", "--prefix", str(layout.prefix)]) == ExitCode.SERVER
    assert json.loads(capsys.readouterr().out)["audit"]["findings"] == 0
    auditrecord.path_of(layout).write_text("rubbish")
    assert cli.main(["status", "--prefix", str(layout.prefix)]) == ExitCode.SERVER
    assert "damaged" in capsys.readouterr().out
