"""What doctor asks of a host, and the command itself."""

import io
import json
import os
import re
import sys
import time
from dataclasses import fields, replace

import pytest

from bundlectl import cli, doctor, environment, evidence
from bundlectl.command import check_arguments
from bundlectl.config import ServeConfig
from bundlectl.host.cuda import Cuda
from bundlectl.host.kernellog import Xid
from bundlectl.layout import Layout
from bundlectl.nvidialog import Details
from bundlectl.scene import Installation, Scene, gather
from manifests.doctor.rules import probes, rules
from manifests.exitcodes import ExitCode
from tests.support import sickness
from tests.support.hosts import DISK, GOOD, LIBRARY, NEEDS, SHM, card, good, with_gpus
from tests.unit.test_bundlectl_checks import ON_BASE, on

SOUND = Scene(GOOD, NEEDS, Installation(cuda_majors=("12",)), temporary=DISK, tools={"gcc", "g++"})
GPU = with_gpus(card())
CASES = sickness.by_rule()


def scene(host=GOOD, **changes):
    return replace(SOUND, host=host, **changes)


def installed(**changes):
    return scene(installed=replace(SOUND.installed, **changes))


def gpus(**facts):
    return scene(with_gpus(card(), **facts))


#: For each probe: a scene where it holds, one where it does not, one that can't tell (if any).
ANSWERS = {
    "driver-missing": (scene(), scene(GPU), None),
    "driver-old": (
        scene(GPU, needs=replace(NEEDS, driver="590.1")),
        scene(GPU, needs=replace(NEEDS, driver="525.60.13")),
        scene(),
    ),
    "driver-mismatch": (gpus(driver="570.10"), scene(GPU), scene()),
    "compat-library": (
        gpus(cuda=Cuda(0, "/usr/local/cuda/compat/libcuda.so.590.1", 13000, 1)),
        scene(GPU),
        scene(),
    ),
    "libcuda-missing": (gpus(cuda=Cuda(problem="not found")), scene(GPU), scene()),
    "fabric-manager-down": (
        gpus(details=(Details("GPU-1", "H100", fabric="In Progress"),)),
        scene(GPU),
        scene(),
    ),
    "uvm-missing": (gpus(devices=("/dev/nvidia0",)), scene(GPU), scene()),
    "devices-missing": (scene(), scene(GPU), None),
    "device-forbidden": (gpus(denied=("/dev/nvidia0",)), scene(GPU), scene()),
    "gpus-hidden": (scene(good(environment={"CUDA_VISIBLE_DEVICES": ""})), scene(), None),
    "gpu-busy": (scene(with_gpus(card(free=9000))), scene(GPU), scene(GPU, running=True)),
    "capability-old": (scene(with_gpus(card(capability="7.5"))), scene(GPU), scene()),
    "capability-uncovered": (
        scene(GPU, needs=replace(NEEDS, served=("sm_80",))),
        scene(GPU, needs=replace(NEEDS, served=("sm_89",))),
        scene(GPU),
    ),
    "mig-on": (gpus(details=(Details("GPU-1", "A100", sliced=True),)), scene(GPU), scene()),
    "xid-seen": (gpus(xids=(Xid("0000:3b:00", 79),)), scene(GPU), None),
    "ecc-errors": (gpus(details=(Details("GPU-1", "A100", uncorrected=1),)), scene(GPU), scene()),
    "memory-short": (scene(good(machine={"memory": 1 << 20})), scene(), None),
    "memory-limited": (scene(good(machine={"memory_limit": 1 << 33})), scene(), None),
    "oom-killed": (scene(good(machine={"killed": ("12 (python)",)})), scene(), None),
    "shm-small": (scene(good(storage={"shm": replace(SHM, size=64 << 20)})), scene(), None),
    "shm-missing": (scene(good(storage={"shm": None})), scene(), None),
    "compiler-missing": (scene(tools={"g++"}), scene(), None),
    "cxx-missing": (scene(tools={"gcc"}), scene(), None),
    "nvcc-missing": (scene(), scene(tools={"nvcc"}), None),
    "ninja-missing": (scene(), scene(tools={"ninja"}), None),
    "python-header-missing": (installed(python_header=False), scene(), scene(installed=None)),
    "cuda-mixed": (installed(cuda_majors=("12", "13")), scene(), scene(installed=None)),
    "library-path-set": (scene(good(environment={"LD_PRELOAD": "set"})), scene(), None),
    "glibc-old": (scene(good(machine={"glibc": "2.27"})), scene(), scene(needs=None)),
    "numa-missing": (installed(numa_library=False), scene(), scene(installed=None)),
    "no-avx2": (scene(good(machine={"cpu_flags": frozenset({"sse2"})})), scene(), None),
    "no-avx512": (scene(), scene(good(machine={"cpu_flags": frozenset({"avx512f"})})), None),
    "machine-mismatch": (scene(good(machine={"architecture": "aarch64"})), scene(), None),
    "cache-noexec": (scene(good(storage={"cache": replace(DISK, noexec=True)})), scene(), None),
    "temporary-noexec": (scene(temporary=replace(DISK, noexec=True)), scene(), None),
    "prefix-noexec": (
        scene(good(storage={"file_system": replace(DISK, noexec=True)})),
        scene(),
        None,
    ),
    "prefix-read-only": (
        scene(good(storage={"file_system": replace(DISK, read_only=True)})),
        scene(),
        None,
    ),
    "prefix-moved": (installed(moved="/old"), scene(), scene(installed=None)),
    "disk-full": (scene(temporary=replace(DISK, free=0)), scene(), None),
    "inodes-out": (scene(temporary=replace(DISK, inodes=3)), scene(), None),
    "cache-forbidden": (installed(cache_writable=False), scene(), scene(installed=None)),
    "home-missing": (scene(good(account={"home": ""})), scene(), None),
    "open-files-low": (scene(good(account={"open_files": 256})), scene(), None),
    "processes-limited": (scene(good(account={"processes": 9})), scene(), None),
    "locale-not-utf8": (scene(good(account={"locale": "C"})), scene(), None),
    "account-without-name": (scene(good(account={"name": ""})), scene(), None),
    "selinux-enforcing": (scene(good(machine={"selinux": True})), scene(), None),
    "clock-wrong": (scene(good(machine={"now": 1})), scene(), scene(needs=None)),
    "proc-missing": (scene(good(machine={"proc": False})), scene(), None),
    "port-taken": (
        scene(good(network={"port_problem": "in use"})),
        scene(),
        scene(held=True),
    ),
    "port-privileged": (scene(needs=replace(NEEDS, port=443)), scene(), scene(needs=None)),
    "loopback-down": (scene(good(network={"loopback": False})), scene(), None),
    "no-route": (scene(default_route=False), scene(), None),
    "hostname-unresolved": (scene(good(network={"hosts": {}})), scene(), None),
    "proxy-set": (scene(good(environment={"https_proxy": "x"})), scene(), None),
    "base-python-wrong": (
        scene(on(problem="gone"), needs=ON_BASE),
        scene(on(), needs=ON_BASE),
        scene(),
    ),
    "base-changed": (
        scene(on(given="1.1"), needs=ON_BASE),
        scene(on(), needs=ON_BASE),
        scene(),
    ),
    "model-incomplete": (installed(incomplete="a.safetensors"), scene(), scene(installed=None)),
}


def test_every_probe_of_the_table_can_be_asked_here():
    assert evidence.PROBES.keys() == probes().keys() == ANSWERS.keys()


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_what_a_host_answers(name):
    holding, not_holding, untold = ANSWERS[name]
    for place, expected in ((holding, True), (not_holding, False), (untold, None)):
        if place is not None:
            answer = evidence.answers(place, [name])[name]
            assert answer.holds is expected
            assert answer.found or expected is None
            assert "\n" not in answer.found


def test_what_cuda_says_of_its_fabric():
    answer = evidence.PROBES["fabric-manager-down"](gpus(cuda=Cuda(802, LIBRARY, 13000)))
    assert answer.holds is True


# Mends can be followed

SETTINGS = {one.name for one in fields(ServeConfig)}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_what_a_mend_writes_into_the_settings_is_taken(rule):
    for text in (rule.mend, rule.mend_zh):
        for name in re.findall(r'\b([A-Z][A-Z0-9_]{2,}) = "', text):
            environment.check(ServeConfig(environment={name: "1"}))
        for words in re.findall(r'\[("--[^\]]*)\]', text):
            check_arguments(tuple(re.findall(r'"([^"]+)"', words)))
        assert set(re.findall(r"\b([a-z][a-z_]{3,}) = ", text)) <= SETTINGS


# The command


@pytest.fixture
def log(tmp_path):
    def write(rule, name="server.log"):
        path = tmp_path / name
        path.write_text(CASES[rule][0].text)
        return path

    return write


def run(*words, prefix):
    return cli.main(["doctor", *map(str, words), "--prefix", str(prefix)])


def test_a_log_without_an_installation(log, tmp_path, capsys):
    assert run("--log", log("port-taken"), prefix=tmp_path / "none") == ExitCode.USAGE
    out = capsys.readouterr().out
    assert out.startswith("1. port-taken")
    assert "no server is running" not in out
    assert not (tmp_path / "none").exists()


def test_as_json(log, tmp_path, capsys):
    assert run("--log", log("custom-code"), "--json", prefix=tmp_path / "none") == ExitCode.USAGE
    record = json.loads(capsys.readouterr().out)
    assert record["exit_code"] == ExitCode.USAGE
    assert record["findings"][0]["id"] == "custom-code"
    assert "trust_remote_code = true" in record["findings"][0]["mend"]


def test_from_standard_input_and_in_chinese(log, tmp_path, capsys, monkeypatch):
    data = io.TextIOWrapper(io.BytesIO(log("custom-code").read_bytes()))
    monkeypatch.setattr(sys, "stdin", data)
    assert run("--log", "-", "--lang", "zh", prefix=tmp_path / "none") == ExitCode.USAGE
    assert "自带 Python 代码" in capsys.readouterr().out


def test_another_machines_log_is_not_compared_with_this_one(log, tmp_path, capsys):
    words = ("--log", log("uvm-missing"), "--foreign")
    assert run(*words, prefix=tmp_path / "none") == ExitCode.TARGET
    captured = capsys.readouterr()
    assert "host:" not in captured.out and "look: ls -l /dev/nvidia-uvm" in captured.out
    assert "look at this host" not in captured.err


def test_what_is_not_known_names_the_support_file(tmp_path, capsys):
    path = tmp_path / "x.log"
    path.write_text("Traceback (most recent call last):\nOddError: the moon\n")
    assert run("--log", path, prefix=tmp_path / "none") == ExitCode.SERVER
    assert capsys.readouterr().out.rstrip().endswith(doctor.SUPPORT)


def test_a_missing_log_is_told_without_a_traceback(tmp_path, capsys):
    assert run("--log", tmp_path / "none.log", prefix=tmp_path / "none") == ExitCode.USAGE
    assert "none.log" in capsys.readouterr().err


def test_nothing_installed_and_no_log(tmp_path, capsys):
    assert run(prefix=tmp_path / "none") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[0] == "no server is running"


def test_the_key_is_not_shown(log, tmp_path, capsys):
    layout = Layout(tmp_path / "p")
    layout.create()
    layout.api_key.write_text("sesame-open-sesame\n")
    layout.api_key.chmod(0o600)
    path = tmp_path / "x.log"
    path.write_text("x.py: error: unrecognized arguments: --frob sesame-open-sesame\n")
    assert run("--log", path, "--all", prefix=layout.prefix) == ExitCode.USAGE
    assert "sesame" not in capsys.readouterr().out


def test_the_logs_of_the_server_and_of_newer_trials(log, tmp_path):
    layout = Layout(tmp_path / "p")
    layout.create()
    assert doctor.of_server(layout) == ()
    now = time.time()
    for name, age in (("server.log", 60), ("candidate.log", 0), ("old.log", 600)):
        (layout.logs / name).write_text("x\n")
        os.utime(layout.logs / name, (now - age, now - age))
    assert [path.name for path in doctor.of_server(layout)] == ["candidate.log", "server.log"]


def test_its_own_log_is_found(log, tmp_path, capsys):
    layout = Layout(tmp_path / "p")
    layout.create()
    (layout.logs / "server.log").write_text(CASES["weights-missing"][0].text)
    assert run(prefix=layout.prefix) == ExitCode.INTEGRITY
    out = capsys.readouterr().out.splitlines()
    assert out[:1] == ["no server is running"]
    assert out[1].startswith("1. weights-missing")


def test_an_installation_that_was_interrupted_is_told(tmp_path, capsys):
    layout = Layout(tmp_path / "p")
    layout.create()
    (layout.journal / "0123.txt").write_text("env.tar.zst\n")
    assert run(prefix=layout.prefix) == ExitCode.OK
    assert "goes on where it stopped" in capsys.readouterr().out


def test_preflight_speaks_too(tmp_path):
    bad = scene(good(network={"loopback": False}))
    assert [one.name for one in doctor.failing(bad)] == ["loopback"]
    assert [one.name for one in doctor.failing(scene(damage="a paper"))] == ["installation"]
    taken = good(network={"port_problem": "in use"})
    assert [one.name for one in doctor.failing(scene(taken))] == ["port"]
    assert not doctor.failing(scene(taken, held=True))
    # One that is left after its front was killed holds no port.
    assert [one.name for one in doctor.failing(scene(taken, running=True))] == ["port"]


def test_a_scene_can_be_looked_at_anywhere(tmp_path):
    found = gather(Layout(tmp_path / "none"))
    assert found.installed is None and found.needs is None and not found.running
    assert evidence.answers(found, list(probes())).keys() == probes().keys()
