"""Switches of a real keeper in this process, with stubs for servers: what is told, and left."""

import json
import os
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from bundlectl import cli, config, models, rehearse, service, systemd, unitfiles
from bundlectl.backoff import Backoff
from bundlectl.layout import Layout
from bundlectl.process import KEEPER, Service, Supervisor
from bundlectl.units import Unit, Wish
from bundler import tinymodel
from manifests.errors import FilesystemError
from manifests.exitcodes import ExitCode
from manifests.lock import Target
from tests.support.kept import KEY, STUB, Host, until
from tests.support.lifecycle import below, layout_at, put, serve, unchanged
from tests.support.mounts import needs_root
from tests.support.simulator import Simulator

#: Stands in for a release's Python: the stub, without the words that name the real program.
PYTHON = f"""#!/bin/sh
while [ "$1" != --model ]; do shift; done
exec '{sys.executable}' '{STUB}' "$@"
"""


@cache
def checkpoint():
    """The files of a model that a start takes for whole."""
    with tempfile.TemporaryDirectory() as folder:
        tinymodel.make(Path(folder, "model"))
        return {path.name: path.read_bytes() for path in Path(folder, "model").iterdir()}


def startable(layout, model, **changes):
    """Install a release with a model of that name, which can be started."""
    release = put(layout, f"bundle-{model}", model, files=checkpoint(), **changes)
    (layout.environment(release) / "bin/python").write_text(PYTHON)
    return release


@pytest.fixture
def host(tmp_path):
    """Two models, the first in service as far as papers say, and a keeper that is at work."""
    made = Host(tmp_path)
    layout = made.layout
    layout.api_key.write_text(KEY)
    layout.api_key.chmod(0o600)
    for name in ("b", "a"):
        release = startable(layout, name)
    serve(layout, release)
    layout.config_file.write_text(f"port = {made.settings.port}\nstop_timeout = 5\n")
    made.backoff = lambda: Backoff(most=1)
    made.begin()
    yield made
    made.end()


def activate(host, model=None, **words):
    layout = host.layout
    release = layout.current_release()
    found = models.find(layout, release, model) if model else None
    settings = config.load(layout.config_file)
    return service.activate(layout, release, settings, lambda seconds: None, found, **words)


def run(host, capsys, *words):
    status = cli.main([*words, "--prefix", str(host.layout.prefix)])
    told = capsys.readouterr()
    return status, told.out + told.err


def orphan(layout):
    """The server of a rehearsal that was killed."""
    left = Supervisor(layout, rehearse.PLACE)
    left.start(
        ["sleep", "600"], {"PATH": "/usr/bin:/bin"}, Service("", 0, "x", "r1", ("models/x",))
    )
    return left


def test_what_a_killed_rehearsal_left_ends_before_a_server_starts(host):
    left = orphan(host.layout)
    assert activate(host).service.model == "a"
    assert not left.alive()


def test_a_stop_ends_a_rehearsal_and_says_so(host, capsys):
    left = orphan(host.layout)
    host.end()
    status, told = run(host, capsys, "stop")
    assert (status, told) == (0, "stopped\n")
    assert not left.alive()
    assert run(host, capsys, "stop") == (0, "nothing was running\n")


def test_a_choice_that_can_not_be_written_down_is_told_and_made_up_for(host):
    activate(host)
    draft = models.path_of(host.layout).with_name(".models.json.new")
    draft.mkdir()
    with pytest.raises(FilesystemError) as caught:
        activate(host, "b")
    assert "b serves already, but only until the next start" in caught.value.why
    assert "the same command again" in caught.value.mend
    assert host.serves() == "b"
    assert models.to_serve(host.layout, host.layout.current_release()).name == "a"
    with pytest.raises(FilesystemError, match="directory"):
        activate(host, "b")
    draft.rmdir()
    pid = host.server()
    activate(host, "b")
    assert host.server() == pid
    assert models.to_serve(host.layout, host.layout.current_release()).name == "b"


def test_a_server_that_refuses_requests_is_not_running(host, capsys):
    activate(host)
    (status, told), record = run(host, capsys, "status"), looked(host, capsys)
    assert status == 0
    assert told.startswith("running: a at")
    assert (record["running"], record["starting_again"]) == (True, False)
    release = host.layout.current_release()
    (folder,) = models.to_serve(host.layout, release).folders
    (host.layout.prefix / folder / "README.md").write_text("stub: hangs\n")
    before = host.server()
    os.kill(before, signal.SIGKILL)
    until(lambda: host.server() not in (0, before))
    (status, told), record = run(host, capsys, "status"), looked(host, capsys)
    assert host.serves() == 503
    assert host.server()
    assert status == ExitCode.SERVER
    assert told.startswith("starting again, and refuses requests")
    assert (record["running"], record["starting_again"]) == (False, True)


def looked(host, capsys):
    return json.loads(run(host, capsys, "status", "--json")[1])


def test_a_restart_in_the_foreground_looks_at_the_host_before_it_stops_anything(host, capsys):
    activate(host)
    pid = host.server()
    serve(host.layout, startable(host.layout, "c", target=Target(("sm_89",), "2.17", "3.11")), "c")
    status, told = run(host, capsys, "restart", "--foreground")
    assert status == ExitCode.TARGET
    assert "/dev/nvidiactl" in told
    assert host.serves() == "a"
    assert host.server() == pid


def test_where_a_unit_is_installed_its_own_commands_are_named(host, capsys, unit):
    activate(host)
    layout = host.layout
    spoken = f"until: {layout.spoken} stop, then: {layout.spoken} start"
    assert spoken in run(host, capsys, "status")[1]
    unit(layout, user=True)
    line = "systemctl --user {} vllm-bundle.service"
    assert f"until: {line.format('restart')}" in run(host, capsys, "status")[1]
    status, told = run(host, capsys, "start")
    assert status == ExitCode.USAGE
    assert line.format("start") in told
    assert f"or: {line.format('stop')}" in told
    assert line.format("stop") in run(host, capsys, "stop")[1]
    assert line.format("start") in run(host, capsys, "ask", "Hello")[1]


@pytest.fixture
def unit(tmp_path, monkeypatch):
    """Has a unit installed, as far as files say."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = systemd.find(user=True).folder
    made = Unit("vllm-bundle.service", "[Unit]\n")
    return lambda layout, **wish: unitfiles.install(layout, Wish(**wish), (made,), folder)


@pytest.fixture
def kept(tmp_path):
    """An installation whose keeper runs and whose server does not."""
    layout = layout_at(tmp_path / "kept")
    serve(layout, startable(layout, "a"))
    layout.config_file.write_text(config.render_default())
    keeper = Supervisor(layout, KEEPER)
    service = Service("", 0, "", layout.current_release())
    keeper.start(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, service)
    yield layout
    keeper.stop(0)


def test_nothing_is_unpacked_to_stay_with_a_server_while_another_keeper_is_at_work(
    kept, tmp_path, capsys
):
    folder, digest = Simulator().write(tmp_path / "media")
    words = ["--media", str(folder), "--manifest", digest, "--ignore", "glibc"]
    with unchanged(kept.prefix):
        status = cli.main(["install", "--foreground", *words, "--prefix", str(kept.prefix)])
    assert status == ExitCode.USAGE
    assert f"{kept.spoken} stop" in capsys.readouterr().err


def test_new_settings_are_for_a_keeper_without_a_server_too(kept, capsys):
    words = ["config", "set", "drain_timeout", "7", "--json", "--prefix", str(kept.prefix)]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["restart"] is True


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("start", "--foreground"),
        ("restart",),
        ("restart", "--foreground"),
        ("stop",),
        ("use", "a"),
        ("rehearse",),
    ],
    ids=" ".join,
)
def test_another_accounts_server_is_left_to_it(tmp_path, capsys, words):
    layout = layout_at(tmp_path / "host")
    serve(layout, startable(layout, "a"))
    layout.config_file.write_text(config.render_default())
    os.chown(layout.run, 123456, -1)
    before = sorted(layout.run.iterdir()) + below(layout.prefix)
    assert cli.main([*words, "--prefix", str(layout.prefix)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "uid 123456" in told
    assert f"sudo -u '#123456' {layout.spoken}" in told
    assert sorted(layout.run.iterdir()) + below(layout.prefix) == before


@needs_root
def test_looking_at_another_accounts_server_goes_on(tmp_path, capsys, unit):
    layout = layout_at(tmp_path / "host")
    os.chown(layout.run, 1, -1)
    unit(layout)
    words = ["--prefix", str(layout.prefix)]
    assert cli.main(["status", *words]) == ExitCode.SERVER
    assert cli.main(["ask", "Hello", *words]) == ExitCode.SERVER
    capsys.readouterr()
    assert cli.main(["stop", *words]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "belongs to daemon" in told
    assert "or: systemctl restart vllm-bundle.service" in told
    service.end(Layout(layout.prefix))  # for a removal
