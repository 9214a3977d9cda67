"""The commands of an installation, and what install.sh does with its words."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, control, free_port, install
from tests.system.conftest import servers


def variables(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_text("utf-8")
    return dict(item.split("=", 1) for item in text.split("\0") if item)


def test_help_and_version(host, small_bundle):
    for done in (install(small_bundle, "--help"), control(host, "--help"), control(host, "-h")):
        assert done.returncode == 0, done.stderr
        assert "exit codes:" in done.stdout
        assert "130" in done.stdout
    for done in (install(small_bundle, "--version"), control(host, "--version")):
        assert done.stdout.startswith("vllm-bundle ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("polish",), "invalid choice"),
        (("logs", "--lines", "-3"), "not a number"),
        (("ask", "Hello", "--max-tokens", "none"), "not a number"),
        (("ask",), "text"),
        (("--port", "70000", "start"), "--port"),
        (("install",), "run it as: sh install.sh"),
        (("audit", "/usr"), "neither a bundle nor an installation"),
    ],
)
def test_bad_words_are_named(host, words, told):
    done = control(host, *words)
    assert done.returncode == ExitCode.USAGE
    assert told in done.stderr
    assert "mend:" in done.stderr


def test_preflight_changes_nothing(small_bundle, tmp_path):
    words = ("--prefix", str(tmp_path / "h"), "--port", str(free_port()), "--json")
    done = install(small_bundle, "preflight", *words)
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert {"disk", "glibc", "port"} <= {finding["name"] for finding in findings}
    assert list(tmp_path.iterdir()) == []
    done = install(small_bundle, "preflight", *words[:4], "--ignore", "ports")
    assert done.returncode == ExitCode.USAGE
    assert "did you mean port?" in done.stderr


def test_json_and_quiet(host, small_bundle):
    done = install(small_bundle, "--prefix", str(host), "--json")
    record = json.loads(done.stdout)
    assert done.stderr == ""
    assert record["model"] == "tiny-qwen3.5"
    done = install(small_bundle, "--prefix", str(host), "--quiet")
    assert done.stderr == ""
    assert done.stdout.startswith("tiny-qwen3.5 answers at")
    for command in ("status", "audit", "logs"):
        done = control(host, command, "--json")
        assert done.returncode == 0
        assert json.loads(done.stdout)
    done = control(host, "start", "--json")
    assert json.loads(done.stdout)["exit_code"] == done.returncode == ExitCode.USAGE


def test_another_port_for_an_installation_that_has_one(host, small_bundle):
    done = install(small_bundle, "--prefix", str(host), "--port", str(free_port()))
    assert done.returncode == ExitCode.USAGE
    assert "edit port in that file" in done.stderr


def test_audits_agree(host, small_bundle):
    runs = [
        install(small_bundle, "audit", "--json"),
        bundle("audit", str(small_bundle), "--json"),
        control(host, "audit", "--json"),
        bundle("audit", str(host), "--json"),
    ]
    assert [done.returncode for done in runs] == [0, 0, 0, 0]
    reports = [json.loads(done.stdout) for done in runs]
    assert reports[0] == reports[1]
    assert reports[2] == reports[3]
    assert reports[0]["manifest_sha256"] == reports[2]["manifest_sha256"]


def test_only_the_server_has_the_winning_libraries(host):
    (server,) = servers(host)
    found = variables(server)
    release = (host / "current").resolve()
    assert found["LD_LIBRARY_PATH"] == str(release / "env/server-libs")
    assert {path.name for path in (release / "env/server-libs").iterdir()} == {
        "libstdc++.so.6",
        "libgcc_s.so.1",
    }
    assert found["HOME"].startswith(str(host))
    assert "VLLM_API_KEY" in found
    key = (host / "etc/api-key").read_text().strip()
    assert key not in Path(f"/proc/{server}/cmdline").read_text("utf-8")


def test_bundlectl_itself_inherits_no_libraries(host, small_bundle):
    # A library path that would break any program that believed it.
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(host), "PYTHONHOME": "/nowhere"}
    done = subprocess.run(
        [host / "bin/bundlectl", "status"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert install(small_bundle, "--version", env=env).returncode == 0


def test_wrong_settings_name_the_line_and_touch_nothing(host):
    settings = host / "etc/serve.toml"
    before = settings.read_text()
    pids = servers(host)
    for text, told in (
        (before.replace("port = ", "prot = "), "did you mean port?"),
        (before.replace('host = "127.0.0.1"', 'host = "0.0.0.0"'), "allow_remote"),
        (before + "\n= 3\n", "not valid TOML"),
    ):
        settings.write_text(text)
        done = control(host, "restart")
        assert done.returncode == ExitCode.USAGE
        assert told in done.stderr
        assert str(settings) in done.stderr
        assert servers(host) == pids
    settings.write_text(before)


def test_stop_start_restart(host):
    first = servers(host)
    assert control(host, "restart").returncode == 0
    second = servers(host)
    assert len(second) == 1
    assert second != first
    assert control(host, "start").returncode == ExitCode.USAGE
    assert control(host, "stop").stdout == "stopped\n"
    assert servers(host) == []
    assert control(host, "stop").stdout == "nothing was running\n"
    assert control(host, "ask", "Hello").returncode == ExitCode.SERVER
    assert control(host, "start").returncode == 0
    assert "listening" in control(host, "logs").stdout


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, ExitCode.INTERRUPTED)]
)
@pytest.mark.parametrize("way", ["script", "command"])
def test_foreground(host, small_bundle, number, status, way):
    assert control(host, "stop").returncode == 0
    command = {
        "script": ["sh", str(small_bundle / "install.sh"), "--prefix", str(host)],
        "command": [str(host / "bin/bundlectl"), "start"],
    }[way]
    child = subprocess.Popen(
        [*command, "--foreground"],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while control(host, "ask", "Hello").returncode and time.monotonic() < deadline:
            time.sleep(0.1)
        while "answers at" not in child.stdout.readline():
            assert time.monotonic() < deadline
        # To that process alone, as a supervisor sends it.
        os.kill(child.pid, number)
        child.communicate(timeout=60)
        assert child.returncode == status
        assert servers(host) == []
    finally:
        child.kill() if child.poll() is None else None
        child.wait()


def test_foreground_starts_a_server_again_that_ends_by_itself(host):
    child = subprocess.Popen(
        [str(host / "bin/bundlectl"), "start", "--foreground"],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "answers at" in child.stdout.readline()
        os.kill(servers(host)[0], signal.SIGKILL)
        while "serves again" not in (line := child.stderr.readline()):
            assert line, "it has ended"
        assert control(host, "ask", "Hello").returncode == 0
        assert control(host, "stop").returncode == 0
        child.communicate(timeout=60)
    finally:
        child.kill() if child.poll() is None else None
    assert child.returncode == 0
    assert servers(host) == []


def test_the_service_manager_is_told(host, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        child = subprocess.Popen(
            [str(host / "bin/bundlectl"), "start", "--foreground"],
            env={"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert manager.recv(100) == b"READY=1"
            assert control(host, "ask", "Hello").returncode == 0
            child.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert child.wait(60) == 0
        finally:
            child.kill() if child.poll() is None else None
            child.wait()
