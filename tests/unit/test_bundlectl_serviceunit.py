"""`bundlectl service`, up to the door of systemd: no test machine's own is ever touched."""

import json
import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from bundlectl import inquiry, serviceaccount, serviceunit, systemd, unitfiles, units
from bundlectl.cli import main
from bundlectl.layout import Layout
from bundlectl.systemd import Manager
from bundlectl.units import Wish
from manifests.errors import TargetError, UsageError
from manifests.exitcodes import ExitCode

INSTANCE = "of-a-test"
UNIT = f"vllm-bundle@{INSTANCE}.service"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing owners needs root")


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = Layout(tmp_path / "p", INSTANCE)
    Layout(made.prefix).create()
    made.create()
    made.command.write_text("#!/bin/sh\n")
    made.command.chmod(0o755)
    return made


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A systemctl that keeps what it is asked, and fails where it is asked for a file `fails`."""
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    log = tmp_path / "calls"
    program.write_text(
        f'#!/bin/sh\necho "$*" >>"{log}"\n[ ! -e "{tmp_path}/fails" ] || '
        "{ echo Access denied >&2; exit 4; }\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return lambda: log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def manager(tmp_path, monkeypatch) -> Manager:
    one = Manager(tmp_path / "units", running=True)
    monkeypatch.setattr(systemd, "find", lambda user, environ=None: one)
    return one


@pytest.fixture(autouse=True)
def _signals():
    """main() sets handlers, as a program may; a test run has to get its own back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.getsignal(number)) for number in numbers]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def call(layout: Layout, *words: str) -> int:
    where = ("--prefix", str(layout.prefix), "--instance", layout.instance)
    return main(["service", *words, *where])


def test_install_show_and_remove(layout, manager, calls, capsys):
    assert call(layout, "install", "--audit", "daily", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert str(manager.folder / UNIT) in record["paths"]
    assert calls() == [
        "daemon-reload",
        f"start vllm-bundle-audit@{INSTANCE}.timer",
    ]
    assert call(layout, "show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["unit"] == UNIT
    assert shown["installed"] and shown["current"]
    assert set(shown["files"].values()) == {unitfiles.OURS}
    assert call(layout, "install", "--audit", "daily") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert call(layout, "remove") == 0
    assert calls()[-3].startswith("disable --now vllm-bundle")
    assert calls()[-2:] == [f"is-active {UNIT}", "daemon-reload"]
    assert not [path for path in manager.folder.rglob("*") if not path.is_dir()]
    assert call(layout, "remove") == 0
    assert "nothing to do" in capsys.readouterr().out


def test_settings_that_changed_since_are_told(layout, manager, calls, capsys):
    assert call(layout, "install") == 0
    layout.config_file.write_text("start_timeout = 1234\n")
    assert call(layout, "show") == 0
    assert "settings changed since; run: bundlectl service install" in capsys.readouterr().out
    assert call(layout, "install") == 0
    expected = inquiry.PATIENCE + 1234 + units.MARGIN
    assert f"TimeoutStartSec={expected}\n" in (manager.folder / UNIT).read_text()
    assert serviceunit.show(layout).current


def test_what_systemd_refuses_is_left_to_the_operator(layout, manager, calls, capsys, tmp_path):
    (tmp_path / "fails").touch()
    assert call(layout, "install") == 0
    assert "daemon-reload: Access denied; run it yourself" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(layout, manager, calls, capsys):
    assert call(layout, "install", "--dry-run") == 0
    assert "ExecStart=" in capsys.readouterr().out
    assert not manager.folder.exists()
    assert not unitfiles.record_path(layout).exists()
    assert call(layout, "install") == 0
    assert call(layout, "remove", "--dry-run") == 0
    assert f"would be removed: {manager.folder / UNIT}" in capsys.readouterr().out
    assert (manager.folder / UNIT).exists()
    assert not any("disable" in line for line in calls())


def test_a_unit_that_was_changed_is_not_even_stopped(layout, manager, calls):
    assert call(layout, "install") == 0
    (manager.folder / UNIT).write_text("my own")
    assert call(layout, "remove") == ExitCode.USAGE
    assert not any("disable" in line for line in calls())
    assert call(layout, "remove", "--force") == 0
    assert not (manager.folder / UNIT).exists()


def test_an_operators_drop_ins_are_left_and_told(layout, manager, calls, capsys):
    assert call(layout, "install") == 0
    (manager.folder / f"{UNIT}.d").mkdir()
    assert call(layout, "remove") == 0
    assert f"{UNIT}.d" in capsys.readouterr().out
    assert (manager.folder / f"{UNIT}.d").is_dir()


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (Wish(audit="weekly"), "service manager|systemd does not run here"),
        (Wish(user=True), "no service manager"),
    ],
)
def test_without_systemd_there_are_lines_for_cron(layout, wish, told):
    nowhere = Manager(Path("/nonexistent"), running=False, user=wish.user)
    with pytest.raises(TargetError, match=told) as caught:
        serviceunit.install(layout, wish, nowhere)
    reboot, *audit = caught.value.findings
    assert reboot == f"crontab: @reboot {layout.command} --instance {INSTANCE} start --quiet"
    assert len(audit) == bool(wish.audit)
    assert "bundlectl start" in caught.value.mend


def test_a_program_that_systemd_could_not_execute_is_told_before(layout, manager, calls):
    layout.command.chmod(0o644)
    assert call(layout, "install") == ExitCode.TARGET
    assert not manager.folder.exists()
    shown = serviceunit.show(layout).text()
    assert "(203/EXEC): " in shown
    assert "is not executable; mend: chmod 755" in shown


def test_a_folder_without_an_installation_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no installation"):
        serviceaccount.decide(Layout(tmp_path), Wish())


def test_an_account_that_is_not_there_is_refused_with_the_command_that_makes_it(layout):
    with pytest.raises(UsageError, match="no account 'no-such'") as caught:
        serviceaccount.decide(layout, Wish(account="no-such"))
    assert "useradd --system" in caught.value.mend


def test_nobody_is_nobodys_account(layout):
    with pytest.raises(UsageError, match="nobody"):
        serviceaccount.decide(layout, Wish(account="nobody"))


def test_account_and_user_exclude_each_other(layout):
    with pytest.raises(UsageError, match="can't go together"):
        serviceaccount.decide(layout, Wish(user=True, account="daemon"))


def given(name: str, *places: Path) -> None:
    for base in places:
        for place in (base, *base.rglob("*")):
            os.chown(place, pwd.getpwnam(name).pw_uid, -1, follow_symlinks=False)


def mend(layout: Layout, **wish: str) -> str:
    with pytest.raises(UsageError, match="could not write") as caught:
        serviceaccount.decide(layout, Wish(account="daemon", **wish))
    return caught.value.mend.removeprefix(f"{layout.spoken} stop && ").partition(";")[0]


@needs_root
def test_an_account_has_to_own_what_the_server_writes_and_the_mend_gives_it_that(layout):
    (layout.cache / "triton").mkdir()
    (layout.own_state / "history").touch()
    service_record = layout.own_state / "service.json"
    service_record.touch()
    layout.api_key.touch(0o600)
    layout.config_file.touch(0o640)
    told = mend(layout)
    assert told == (
        f"chown -hR daemon: {layout.cache} {layout.run} {layout.logs} && "
        f"chown -h daemon: {layout.own_state} {layout.own_state}/history {layout.api_key} && "
        f"chmod o+rX {layout.config_file}"
    )
    subprocess.run(["sh", "-c", told], check=True)
    assert serviceaccount.decide(layout, Wish(account="daemon")).account == "daemon"
    assert {place.stat().st_uid for place in (layout.etc, layout.state, service_record)} == {0}
    (layout.cache / "triton/of-root").touch()
    assert mend(layout) == f"chown -hR daemon: {layout.cache}"


@needs_root
def test_an_audit_keeps_its_answer_in_the_state_that_instances_share(layout):
    given("daemon", layout.home)
    assert serviceaccount.decide(layout, Wish(account="daemon")).account == "daemon"
    assert mend(layout, audit="daily") == f"chown -h daemon: {layout.state}"


@needs_root
def test_the_first_start_makes_the_key(layout):
    given("daemon", layout.cache, layout.own_state)
    assert mend(layout) == f"chown -h daemon: {layout.etc}"


@needs_root
@pytest.mark.parametrize("account", ["", "root"])
@pytest.mark.parametrize(
    "place", ["bin", "bin/bundlectl", "releases", f"instances/{INSTANCE}/cache"]
)
def test_root_runs_nothing_that_another_account_can_change(layout, place, account):
    given("daemon", layout.prefix / place)
    with pytest.raises(UsageError, match="root would run what another account can change") as told:
        serviceaccount.decide(layout, Wish(account=account))
    assert str(layout.prefix / place) in told.value.findings[0]


@needs_root
def test_the_owner_of_an_installation_runs_it_and_root_does_not(layout):
    given("daemon", layout.prefix)
    assert serviceaccount.decide(layout, Wish()).account == "daemon"
    with pytest.raises(UsageError, match="root would run"):
        serviceaccount.decide(layout, Wish(account="root"))


@pytest.mark.parametrize("answer", ["sleep 60", "echo failed; exit 1"])
def test_units_stay_while_their_server_has_not_ended(
    layout, manager, monkeypatch, tmp_path, answer
):
    """A stop may take as long as the longest request; without its files nobody could end it."""
    program = tmp_path / "slow/systemctl"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ncase $1 in is-active) echo deactivating; exit 3;; disable) {answer};; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(systemd, "_PATIENCE", 0.5)
    monkeypatch.setattr(units, "MARGIN", 0)
    layout.config_file.write_text("drain_timeout = 0\nstop_timeout = 1\n")
    assert call(layout, "install") == 0
    assert call(layout, "remove") == ExitCode.SERVER
    assert (manager.folder / UNIT).exists()
    assert unitfiles.record_path(layout).exists()


def test_a_stop_is_waited_for_as_long_as_it_may_take(layout, manager, monkeypatch):
    asked: list[tuple[str, float]] = []

    def says(_self, *words, patience=0.0):
        asked.append((words[0], patience))
        return 0, ""

    monkeypatch.setattr(Manager, "says", says)
    layout.config_file.write_text("drain_timeout = 1000\nstop_timeout = 100\n")
    assert call(layout, "install") == 0
    assert call(layout, "remove") == 0
    assert dict(asked)["disable"] >= 1160


@pytest.mark.parametrize("expression", ["daily", "weekly", "Sun *-*-* 03:00"])
def test_times_that_systemd_knows(expression):
    systemd.check_calendar(expression)


@pytest.mark.parametrize("expression", [" ", "daily\nExecStart=/bin/sh", "%h", "\x00"])
def test_times_that_would_break_a_unit(expression):
    with pytest.raises(UsageError, match="no time that systemd knows"):
        systemd.check_calendar(expression)


@pytest.mark.skipif(
    not os.access("/usr/bin/systemd-analyze", os.X_OK), reason="systemd-analyze is not installed"
)
def test_a_time_that_systemd_does_not_know():
    with pytest.raises(UsageError, match="no time that systemd knows"):
        systemd.check_calendar("now and then")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.config/systemd/user"),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "/c"}, "/c/systemd/user"),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "c"}, "/home/me/.config/systemd/user"),
    ],
)
def test_where_an_accounts_units_lie(environ, folder):
    found = systemd.find(user=True, environ=environ)
    assert (found.folder, found.running, found.user) == (Path(folder), False, True)


def test_an_account_without_a_home_has_no_units():
    with pytest.raises(UsageError, match="no home folder"):
        systemd.find(user=True, environ={})


def test_the_hosts_units_lie_in_one_place():
    assert systemd.find(user=False).folder == Path("/etc/systemd/system")
