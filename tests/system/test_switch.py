"""Switches under load: how many requests each of them costs. None, is the aim and the test."""

import json
import os
import signal
import subprocess
import time

import pytest

from bundler import tinymodel
from manifests.exitcodes import ExitCode
from tests.support.load import load
from tests.support.small import bundle, control, free_port, install
from tests.system.conftest import end_servers, servers

FIRST, SECOND, BROKEN = "tiny-qwen3.5", "tiny-b", "tiny-broken"


@pytest.fixture(scope="module")
def host(workplace, small_bundle, tmp_path_factory):
    """An installation that serves the first of three models; the last one never starts."""
    root = tmp_path_factory.mktemp("switch")
    words = []
    for seed, name in enumerate((SECOND, BROKEN), start=1):
        tinymodel.make(root / name, seed=seed)
        words += ["--model", str(root / name)]
    with (root / BROKEN / "README.md").open("a") as card:
        card.write("\nstub: dies\n")
    made = bundle(
        *("create", "--model-only", "--for", str(small_bundle), "--output", str(root / "media")),
        *("--stack", str(workplace.stack), "--cache", str(workplace.cache), *words),
        *("--find-links", str(workplace.links)),
    )
    assert made.returncode == 0, made.stderr
    (more,) = (root / "media").iterdir()
    prefix = root / ("a long prefix " * 7) / "host"  # longer than the name of a socket may be
    port = str(free_port())
    for folder in (small_bundle, more):
        done = install(folder, "--prefix", str(prefix), "--port", port)
        assert done.returncode == 0, done.stderr
    yield prefix
    end_servers(root)


def told(prefix):
    return json.loads(control(prefix, "status", "--json").stdout)


def loaded(prefix):
    key = (prefix / "etc/api-key").read_text().strip()
    # Longer than the steps of a switch, so that requests are under way at each of them.
    return load(told(prefix)["url"], key, "any", stub_seconds=0.3)


@pytest.mark.parametrize(
    ("words", "status", "model"),
    [
        (("use", SECOND), 0, SECOND),
        (("restart",), 0, SECOND),
        (("use", FIRST, "--stop-first"), 0, FIRST),
        (("use", BROKEN), ExitCode.SERVER, FIRST),
        (("use", BROKEN, "--stop-first"), ExitCode.SERVER, FIRST),
    ],
    ids=["use", "restart", "stop first", "a broken one", "a broken one, stop first"],
)
@pytest.mark.e2e
def test_no_request_is_lost(host, words, status, model):
    with loaded(host) as clients:
        time.sleep(0.5)
        done = control(host, *words)
        assert done.returncode == status, done.stderr
        before = clients.total
        while clients.total < before + 10:
            time.sleep(0.05)
    print(clients.summary())
    assert clients.failures == []
    assert clients.answered[model]
    assert told(host)["model"] == model
    assert len(servers(host)) == 1


@pytest.mark.e2e
def test_no_request_is_lost_by_an_upgrade(host, newer_bundle):
    before = told(host)["release"]
    with loaded(host) as clients:
        done = install(newer_bundle, "--prefix", str(host))
        assert done.returncode == 0, done.stderr
    print(clients.summary())
    assert clients.failures == []
    assert told(host)["release"] != before
    assert control(host, "audit").returncode == 0


@pytest.mark.e2e
def test_a_stop_lets_requests_end(host):
    with loaded(host) as clients:
        while not clients.total:
            time.sleep(0.05)
        clients.end()
        assert control(host, "stop").returncode == 0
    assert clients.failures == []
    assert servers(host) == []
    assert control(host, "start").returncode == 0


@pytest.mark.e2e
def test_a_log_that_is_followed(host):
    child = subprocess.Popen(
        [str(host / "bin/bundlectl"), "logs", "-f", "--lines", "1"],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline().startswith("listening")
        assert control(host, "restart").returncode == 0
        assert child.stdout.readline().startswith("took a kernel")  # the next server's first line
        assert child.stdout.readline().startswith("listening")
        os.kill(child.pid, signal.SIGINT)
        _, told_last = child.communicate(timeout=30)
    finally:
        child.kill() if child.poll() is None else None
    assert child.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in told_last
    refused = control(host, "logs", "--follow", "--json")
    assert refused.returncode == ExitCode.USAGE
