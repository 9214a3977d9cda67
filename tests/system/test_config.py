"""`bundlectl config` and `rehearse` on an installation that serves."""

import json
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import control, free_port
from tests.system.conftest import servers


def settings(host: Path) -> Path:
    return host / "etc/serve.toml"


@pytest.fixture(autouse=True)
def as_it_was(host):
    before = settings(host).read_bytes()
    yield
    settings(host).write_bytes(before)


def running(host: Path) -> int:
    found: int = json.loads(control(host, "status", "--json").stdout)["pid"]
    return found


def test_show_has_every_key_and_the_arguments(host):
    shown = json.loads(control(host, "config", "show", "--json").stdout)
    keys = {row["key"]: row for row in shown["keys"]}
    assert (keys["port"]["default"], keys["port"]["source"]) == (8000, "file")
    assert keys["port"]["about"] == "TCP port."
    assert keys["dtype"]["source"] == "file"
    words = {one["words"][0]: one for one in shown["arguments"]}
    assert not {"--host", "--port"} & set(words)  # those are the front's
    assert words["--model"]["source"] == "bundle"
    plain = control(host, "config", "show", "--arguments").stdout
    assert "--uds server.sock   (bundle)\n" in plain


def test_set_changes_one_line_and_says_that_a_restart_is_due(host):
    before, pid = settings(host).read_text(), running(host)
    port = str(free_port())
    done = control(host, "config", "set", "port", port)
    assert done.returncode == 0, done.stderr
    assert "restart" in done.stdout
    after = settings(host).read_text()
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    assert [new for old, new in lines if old != new] == [f"port = {port}"]
    assert running(host) == pid
    done = control(host, "config", "set", "environment.OMP_NUM_THREADS", "2", "--restart", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["url"].endswith(f":{port}")
    assert running(host) != pid
    done = control(host, "config", "set", "--unset", "environment.OMP_NUM_THREADS")
    assert "OMP_NUM_THREADS" not in settings(host).read_text()
    assert settings(host).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("port", "0"), "port is 0"),
        (("prot", "1"), "did you mean port?"),
        (("port",), "config set needs one key and its value"),
        (("extra_arguments", '["--api-key", "x"]'), "write the key into etc/api-key"),
        (("extra_arguments", '["--load-format", "dummy"]'), "random weights"),
        (("environment.HF_HUB_OFFLINE", "0"), "keep the server offline"),
        (("pictures", "false"), "can't be had from the server of this release"),
        # Known from the start before, without asking again.
        (("extra_arguments", '["--compilation-confg", "1"]'), "did you mean --compilation-config"),
    ],
)
def test_what_is_wrong_is_never_written(host, words, told):
    before = settings(host).read_bytes()
    done = control(host, "config", "set", *words)
    assert done.returncode == ExitCode.USAGE
    assert told in done.stderr
    assert settings(host).read_bytes() == before


@pytest.mark.e2e
def test_what_the_server_would_refuse_is_told_before_it_is_stopped(host):
    pid = running(host)
    more = 'extra_arguments = [\n  "%s",\n]'
    text = settings(host).read_text().replace("extra_arguments = []", more)
    line = text[: text.index("%s")].count("\n") + 1
    for argument, told in (
        ("--max-model-length=1", "the server has no option --max-model-length"),
        ("--load=auto", "--load is a part of: --load-format"),
        # Only the parser itself reads such a value.
        ("--compilation-config=x", "argument --compilation-config: invalid compilation value: 'x'"),
    ):
        settings(host).write_text(text % argument)
        for words in (("config", "check"), ("restart",)):
            done = control(host, *words)
            assert done.returncode == ExitCode.USAGE, done.stderr
            assert f"serve.toml:{line}: extra_arguments: " in done.stderr
            assert told in done.stderr
    settings(host).write_text(text % "--compilation-config=3")
    done = control(host, "config", "check")
    assert done.returncode == 0, done.stderr
    assert "serve.toml: right" in done.stdout
    assert running(host) == pid


def test_a_rehearsal_leaves_what_serves_alone(host):
    pid, current = running(host), (host / "current").readlink()
    done = control(host, "rehearse", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "tiny-qwen3.5"
    assert (running(host), (host / "current").readlink()) == (pid, current)
    assert len(servers(host)) == 1
    log = (host / "state/logs/rehearsal.log").read_text()
    assert "REHEARSAL-NOT-FOR-USE" in log
    assert "--load-format dummy" in log


@pytest.mark.e2e
def test_a_rehearsal_that_fails_says_why_and_leaves_nothing(host):
    pid = running(host)
    text = settings(host).read_text().partition("[environment]")[0]
    settings(host).write_text(f'{text}[environment]\nSTUB_MODE = "dies"\n')
    done = control(host, "rehearse")
    assert done.returncode == ExitCode.SERVER
    assert "the stub was told to die" in done.stderr
    assert "rehearsal.log" in done.stderr
    assert running(host) == pid
    assert len(servers(host)) == 1
