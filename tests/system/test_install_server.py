"""Servers that fail, upgrades, the way back, and two installs at a time."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import control, free_port, install
from tests.support.variants import broken_server
from tests.system.conftest import end_servers, keepers, servers

MODES = {"dies": "the stub was told to die", "hangs": "EngineCore failed", "chat-500": "HTTP 500"}


def set_mode(prefix: Path, mode: str) -> None:
    path = prefix / "etc/serve.toml"
    text = path.read_text().partition("[environment]")[0] + "[environment]\n"
    path.write_text(text + (f'STUB_MODE = "{mode}"\n' if mode else ""))


@pytest.fixture(scope="module")
def installed(small_bundle, tmp_path_factory):
    """Installed, but never in service."""
    root = tmp_path_factory.mktemp("faults")
    port = str(free_port())
    done = install(small_bundle, "--prefix", str(root / "host"), "--port", port, "--no-start")
    assert done.returncode == 0, done.stderr
    yield root / "host"
    end_servers(root)


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_fails_at_the_first_install(installed, small_bundle, mode):
    set_mode(installed, mode)
    done = install(small_bundle, "--prefix", str(installed))
    assert done.returncode == ExitCode.SERVER, done.stderr
    assert MODES[mode] in done.stderr
    assert "mend:" in done.stderr
    assert "server.log" in done.stderr
    assert servers(installed) == []
    assert not (installed / "current").exists()
    assert control(installed, "start").returncode == ExitCode.USAGE


def test_after_the_mend_the_re_run_only_starts_it(installed, small_bundle):
    set_mode(installed, "")
    before = {path: path.stat().st_ino for path in installed.glob("releases/*/env/bin/*")}
    done = install(small_bundle, "--prefix", str(installed))
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_ino for path in before} == before
    assert control(installed, "ask", "Hello").returncode == 0
    assert control(installed, "stop").returncode == 0


def test_an_upgrade_and_the_way_back(host, small_bundle, newer_bundle):
    first = json.loads(control(host, "status", "--json").stdout)
    for folder, name in ((newer_bundle, "small+newer"), (small_bundle, small_bundle.name)):
        done = install(folder, "--prefix", str(host), "--allow-downgrade")
        assert done.returncode == 0, done.stderr
        status = json.loads(control(host, "status", "--json").stdout)
        assert status["release"].startswith(name)
        assert status["url"] == first["url"]
        assert len(servers(host)) == 1
        assert len(status["releases"]) == 2
        assert control(host, "ask", "Hello").returncode == 0
        assert control(host, "audit").returncode == 0
    assert len(list((host / "models").iterdir())) == 1, "the model is shared"


def test_a_failing_upgrade_leaves_the_old_one_serving(host, small_bundle, tmp_path):
    folder = broken_server(small_bundle, tmp_path, "chat-500")
    before = (host / "current").readlink(), servers(host)
    done = install(folder, "--prefix", str(host), "--allow-downgrade")
    assert done.returncode == ExitCode.SERVER, done.stderr
    assert "candidate.log" in done.stderr
    assert ((host / "current").readlink(), servers(host)) == before
    assert control(host, "ask", "Hello").returncode == 0


@pytest.mark.e2e
def test_a_damaged_release_is_mended_by_its_bundle(installed, small_bundle):
    (victim,) = installed.glob("models/*/config.json")
    victim.write_bytes(victim.read_bytes()[:-2] + b" }")
    assert control(installed, "audit").returncode == ExitCode.INTEGRITY
    done = install(small_bundle, "--prefix", str(installed))
    assert done.returncode == 0, done.stderr
    assert control(installed, "audit").returncode == 0

    # While it serves, nothing is replaced below it.
    (victim,) = installed.glob("models/*/config.json")
    victim.write_bytes(victim.read_bytes()[:-2] + b" }")
    done = install(small_bundle, "--prefix", str(installed))
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "stop" in done.stderr
    assert control(installed, "stop").returncode == 0
    assert install(small_bundle, "--prefix", str(installed), "--no-start").returncode == 0
    assert control(installed, "audit").returncode == 0


def test_a_second_install_at_the_same_time(installed, small_bundle):
    with (installed / "state/install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = install(small_bundle, "--prefix", str(installed))
    assert done.returncode == ExitCode.USAGE
    assert "another install" in done.stderr
    assert "mend: wait" in done.stderr


def test_a_taken_port_is_named_before_anything_is_written(small_bundle, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = install(small_bundle, "--prefix", str(tmp_path / "h"), "--port", str(port))
    assert done.returncode == ExitCode.TARGET
    assert f"port: 127.0.0.1:{port}: Address already in use" in done.stderr
    assert not (tmp_path / "h").exists()


def test_a_port_taken_by_somebody_else_later(installed, small_bundle):
    port = int(re.search(r"^port = (\d+)", (installed / "etc/serve.toml").read_text(), re.M)[1])
    with contextlib.closing(socket.create_server(("127.0.0.1", port))):
        for done in (
            control(installed, "start"),
            install(small_bundle, "--prefix", str(installed)),
        ):
            assert done.returncode == ExitCode.TARGET, done.stderr
            assert "Address already in use" in done.stderr
    assert servers(installed) == []


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def told(prefix):
    return json.loads(control(prefix, "status", "--json").stdout)


def test_a_killed_server_is_started_again_by_its_keeper(host):
    (before,) = servers(host)
    os.kill(before, signal.SIGKILL)
    until(lambda: told(host)["running"] and servers(host) != [before])
    status = control(host, "status").stdout
    assert "restarts: 1" in status
    assert "killed by SIGKILL" in status
    assert control(host, "ask", "Hello").returncode == 0


@pytest.mark.e2e
def test_a_killed_keeper_leaves_nothing_that_nobody_tells_of(host):
    for command in ("start", "stop"):
        os.kill(keepers(host)[0], signal.SIGKILL)
        until(lambda: not keepers(host))
        assert len(servers(host)) == 1
        status = control(host, "status")
        assert status.returncode == ExitCode.SERVER
        assert "a server is left whose front was killed" in status.stdout
        assert control(host, "ask", "Hello").returncode == ExitCode.SERVER
        assert control(host, command).returncode == 0
        assert len(servers(host)) == len(keepers(host)) == (command == "start")
    assert control(host, "start").returncode == 0
