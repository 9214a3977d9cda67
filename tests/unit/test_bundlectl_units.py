"""The units, judged by systemd's own tools where they are there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bundlectl import hardening, inquiry, units
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.units import Wish
from manifests.exitcodes import ExitCode
from manifests.overlay import Base

analyzer = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
WISHES = [
    Wish(),
    Wish(audit="daily"),
    Wish(account="daemon", audit="Sun *-*-* 03:00", boot=False),
    Wish(user=True, audit="weekly"),
]


def layout_at(prefix: Path, instance: str = "") -> Layout:
    layout = Layout(prefix, instance)
    layout.create()
    layout.command.write_text("#!/bin/sh\n")
    layout.command.chmod(0o755)
    return layout


def written(folder: Path, made: tuple[units.Unit, ...]) -> list[str]:
    folder.mkdir()
    for unit in made:
        (folder / unit.name).write_text(unit.text)
    return [str(folder / unit.name) for unit in made]


def values(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@analyzer
@pytest.mark.parametrize("wish", WISHES)
def test_systemd_itself_takes_every_unit(tmp_path, wish):
    layout = layout_at(tmp_path / "a folder of 100%n $HOME", "two")
    made = units.render(layout, ServeConfig(), wish, gpu=True)
    paths = written(tmp_path / "units", made)
    scope = ("--user",) if wish.user else ()
    done = subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", *paths],
        capture_output=True,
        text=True,
        env={"SYSTEMD_LOG_LEVEL": "notice", "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin"},
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@analyzer
def test_systemd_would_refuse_what_is_no_unit(tmp_path):
    """What the test before this one is worth."""
    layout = layout_at(tmp_path / "p")
    (made, *_) = units.render(layout, ServeConfig(), Wish(), gpu=False)
    broken = units.Unit(made.name, made.text.replace("NoNewPrivileges=", "NoSuchPrivileges="))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *written(tmp_path / "units", (broken,))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NoSuchPrivileges" in done.stderr


@analyzer
@pytest.mark.parametrize(("part", "most"), [("", 25), ("-audit", 15)])
def test_little_is_exposed(tmp_path, part, most):
    """systemd's own score, in tenths: 0 is the safest, 100 a service without any of it."""
    made = units.render(layout_at(tmp_path / "p"), ServeConfig(), Wish(audit="daily"), gpu=True)
    written(tmp_path / "units", made)
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={most}",
            tmp_path / f"units/vllm-bundle{part}.service",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:]


def test_names_carry_the_instance(tmp_path):
    wish = Wish(audit="daily")
    names = {
        instance: [
            unit.name
            for unit in units.render(Layout(tmp_path, instance), ServeConfig(), wish, gpu=True)
        ]
        for instance in ("", "two")
    }
    assert names[""] == [
        "vllm-bundle.service",
        "vllm-bundle-gpu.service",
        "vllm-bundle-audit.service",
        "vllm-bundle-audit.timer",
    ]
    assert not set(names[""]) & set(names["two"])
    assert names["two"][0] == "vllm-bundle@two.service"


def test_the_instance_is_named_to_the_program(tmp_path):
    (unit, *_) = units.render(Layout(tmp_path, "two"), ServeConfig(), Wish(), gpu=False)
    (start,) = values(unit.text, "ExecStart")
    assert start.endswith('bundlectl" --instance two start --foreground')


def test_deadlines_follow_the_settings(tmp_path):
    settings = ServeConfig(start_timeout=1000, stop_timeout=50)
    (unit, *_) = units.render(Layout(tmp_path), settings, Wish(), gpu=False)
    (start,), (stop,) = (values(unit.text, f"Timeout{word}Sec") for word in ("Start", "Stop"))
    assert int(start) > settings.start_timeout + inquiry.PATIENCE
    assert int(stop) > settings.stop_timeout


def test_a_start_that_another_one_may_mend_is_tried_again(tmp_path):
    """1 is also how Python itself fails, and 2 that another bundlectl was at work at boot."""
    (unit, *_) = units.render(Layout(tmp_path), ServeConfig(), Wish(), gpu=False)
    (never,) = values(unit.text, "RestartPreventExitStatus")
    assert set(never.split()) == {str(int(ExitCode.TARGET))}
    # What does not mend itself ends all the same: the burst is over within the interval.
    (burst,), (interval,), (pause,) = (
        values(unit.text, key) for key in ("StartLimitBurst", "StartLimitIntervalSec", "RestartSec")
    )
    assert int(burst) * int(pause) < int(interval)


def test_other_machines_are_kept_out_unless_they_are_let_in(tmp_path):
    closed, opened = (
        units.render(Layout(tmp_path), settings, Wish(), gpu=False)[0].text
        for settings in (ServeConfig(), ServeConfig(host="0.0.0.0", allow_remote=True))
    )
    assert values(closed, "IPAddressDeny") == ["any"]
    assert values(closed, "IPAddressAllow") == ["localhost"]
    assert values(opened, "IPAddressDeny") == values(opened, "IPAddressAllow") == []


def test_a_privileged_port_takes_its_capability_and_no_other(tmp_path):
    settings = ServeConfig(port=443)
    (unit, *_) = units.render(Layout(tmp_path), settings, Wish(account="vllm"), gpu=False)
    assert values(unit.text, "CapabilityBoundingSet") == ["CAP_NET_BIND_SERVICE"]
    assert values(unit.text, "AmbientCapabilities") == ["CAP_NET_BIND_SERVICE"]
    (unit, *_) = units.render(Layout(tmp_path), ServeConfig(), Wish(), gpu=False)
    assert values(unit.text, "CapabilityBoundingSet") == [""]
    assert values(unit.text, "AmbientCapabilities") == []


def test_devices_are_those_of_the_gpus_alone(tmp_path):
    with_gpu, without = (
        units.render(Layout(tmp_path), ServeConfig(), Wish(), gpu=gpu) for gpu in (True, False)
    )
    assert values(with_gpu[0].text, "DeviceAllow") == ["char-nvidia* rw", "/dev/dxg rw"]
    assert values(without[0].text, "DeviceAllow") == []
    assert values(without[0].text, "DevicePolicy") == ["closed"]
    assert [unit.name for unit in without] == ["vllm-bundle.service"]


def test_an_installation_in_a_home_stays_readable():
    for prefix, protection in (("/home/me/llm", "read-only"), ("/opt/llm", "yes")):
        (unit, *_) = units.render(Layout(Path(prefix)), ServeConfig(), Wish(), gpu=False)
        assert values(unit.text, "ProtectHome") == [protection]


def test_a_python_in_a_home_below_an_overlay_stays_readable():
    for python, protection in (("/root/venv/bin/python", "read-only"), ("/opt/x/python", "yes")):
        base = Base(python, "/usr/bin/python3.12", "3.12.3", ())
        layout = Layout(Path("/opt/llm"))
        (unit, *_) = units.render(layout, ServeConfig(), Wish(), gpu=False, base=base)
        assert values(unit.text, "ProtectHome") == [protection]


def test_a_home_that_only_a_name_leads_through_stays_readable(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "home/venv").symlink_to(tmp_path / "data")
    monkeypatch.setattr(units, "_HOMES", (tmp_path / "home",))
    base = Base(str(tmp_path / "home/venv/python"), "/usr/bin/python3.12", "3.12.3", ())
    (unit, *_) = units.render(Layout(Path("/opt/llm")), ServeConfig(), Wish(), gpu=False, base=base)
    assert values(unit.text, "ProtectHome") == ["read-only"]


def test_units_of_an_account_ask_for_nothing_that_needs_root(tmp_path):
    made = units.render(Layout(tmp_path), ServeConfig(), Wish(user=True, audit="daily"), gpu=True)
    for unit in made:
        for key in (
            "User",
            "ProtectSystem",
            "DevicePolicy",
            "CapabilityBoundingSet",
            "LimitMEMLOCK",
        ):
            assert values(unit.text, key) == []
    assert values(made[0].text, "WantedBy") == ["default.target"]


def test_what_is_left_out_is_in_no_unit_of_the_server():
    named = {row.key for row in hardening.rows(hardening.SERVER)}
    assert {row.key for row in hardening.left_out()} & named == set()


def test_every_line_has_its_reason():
    for kind in (hardening.SERVER, hardening.USER, hardening.AUDIT):
        rows = hardening.rows(kind)
        assert len(rows) > 8
        assert all(len(row.why) > 10 for row in rows)
