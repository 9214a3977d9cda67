"""Preflight of what is installed, and before a start: whose needs count, and what is ignored."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from bundlectl import config, models, readiness
from bundlectl.config import ServeConfig
from bundlectl.preflight import Needs
from manifests import bundle, placement
from manifests.errors import TargetError, UsageError
from manifests.lock import Target
from manifests.stack import Server
from tests.support.mounts import needs_root
from tests.support.nvidia import smi
from tests.unit.test_bundlectl_models import choose, layout, model, put
from tests.unit.test_manifests_fit_answer import shape

__all__ = ["layout"]
SMALL, LARGE = shape("Qwen3.5-4B"), shape("Qwen3.5-9B")


@pytest.fixture
def port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def installed(layout, *others, ignored=(), **changes):
    """A release whose server is to be started; gives its name and its manifest."""
    layout.config_file.write_text(config.render_default())
    release = put(layout, "one", model("a", shape=SMALL), *others, **changes)
    ignore(layout, release, *ignored)
    return release, placement.load_manifest(layout.prefix, release)[0]


def ignore(layout, release, *names):
    """Let the receipt say that these checks were ignored."""
    path = placement.receipt_path(layout.prefix, release)
    path.write_bytes(dataclasses.replace(placement.load_receipt(path), ignored=names).dump())


def start(layout, release, manifest, **settings):
    served = models.to_serve(layout, release)
    return readiness.before_start(layout, release, manifest, ServeConfig(**settings), served)


def test_a_healthy_host_is_not_refused_and_quickly(layout, port):
    release, manifest = installed(layout)
    begun = time.monotonic()
    start(layout, release, manifest, port=port)
    assert time.monotonic() - begun < 5  # 0.05 on an idle machine


def test_a_port_that_is_taken_refuses_a_start_unless_it_is_ignored(layout):
    release, manifest = installed(layout)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TargetError, match=f"port: 127.0.0.1:{port}: .* by pid {os.getpid()}"):
            start(layout, release, manifest, port=port)
        ignore(layout, release, "port")
        (warning,) = [one for one in start(layout, release, manifest, port=port) if one.ignored]
        assert warning.name == "port"


def test_names_that_a_later_release_has_no_more_are_no_error(layout, port):
    release, manifest = installed(layout, ignored=("gone", "port"))
    assert readiness.ignored(layout, release) == {"port"}
    start(layout, release, manifest, port=port)


#: Says what an account lacks at a start, then for an installation. Root without its privilege over
#: modes is an account as any other that can still read this test's own folders.
_FORBIDDEN = """
import json, sys
from pathlib import Path
from bundlectl import host, readiness
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
layout = Layout(Path(sys.argv[1]))
start = readiness.probe(layout, ServeConfig(port=0), gpus=False)
print(json.dumps([start.storage.forbidden, host.probe(layout.prefix).storage.forbidden]))
"""


def forbidden(layout):
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-c"]
    environ = {**os.environ, "PYTHONPATH": ":".join(item for item in sys.path if item)}
    words = (*command, _FORBIDDEN, str(layout.prefix))
    return json.loads(subprocess.run(words, env=environ, stdout=-1, check=True).stdout)


@needs_root
def test_a_server_may_run_below_a_prefix_that_another_account_owns(layout):
    """It writes cache and state alone, and reads its settings."""
    layout.config_file.write_text(config.render_default())
    for place in (layout.prefix, *layout.prefix.rglob("*")):
        os.chown(place, 1, 1)
    for place in (layout.cache, layout.own_state, layout.run, layout.logs):
        os.chown(place, 0, 0)
    whole = [f"{layout.prefix} can't be written"]
    assert forbidden(layout) == [[], whole]
    os.chown(layout.run, 1, 1)
    layout.etc.chmod(0o700)
    assert forbidden(layout)[0] == [f"{layout.run} can't be written", f"{layout.etc} can't be read"]
    layout.logs.rmdir()
    os.chown(layout.own_state, 1, 1)
    assert f"{layout.own_state} can't be written" in forbidden(layout)[0]


def on_gpu():
    """Changes that make of a bundle one for an L40S."""
    return {"target": Target(("sm_89",), "2.17", "3.11")}


def test_a_start_asks_for_the_gpus_where_they_are_needed(layout, port):
    release, manifest = installed(layout, **on_gpu())
    with pytest.raises(TargetError, match="gpu: missing: /dev/nvidiactl"):
        start(layout, release, manifest, port=port)
    ignore(layout, release, "gpu")
    start(layout, release, manifest, port=port)


def test_the_model_that_is_chosen_is_judged_not_the_default(layout, tmp_path, monkeypatch):
    """An L4 holds the model of 4B and not that of 9B."""
    smi(tmp_path / "bin", csv="GPU-1, NVIDIA L4, 23034, 22500, Disabled, 8.9")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    release, _ = installed(layout, model("b", shape=LARGE), **on_gpu())

    def fits():
        name, findings = readiness.of_installed(layout)
        assert name == release
        return next(one.passed for one in findings if one.name == "model-fit")

    assert fits()
    choose(layout, release, "b")
    assert not fits()


def test_what_will_be_served_by_a_release_that_is_not_installed_yet(layout):
    """It goes on with the model that is served now, where it has it."""
    release, manifest = installed(layout, model("b", shape=LARGE))
    coming = dataclasses.replace(manifest, name="two")
    assert readiness.to_serve(layout, "two-0123", coming).name == "a"
    choose(layout, release, "b")
    assert readiness.to_serve(layout, "two-0123", coming).name == "b"
    without = dataclasses.replace(coming, others=())
    assert readiness.to_serve(layout, "two-0123", without).name == "a"
    models.path_of(layout).write_text("damaged")  # the start tells that
    assert readiness.to_serve(layout, "two-0123", coming).name == "a"


def test_memory_follows_the_model():
    class _Needs:
        memory = SMALL.weights + 100

    class _Manifest:
        needs = _Needs
        model = model("a", shape=SMALL)

    memory = readiness.memory_of
    assert memory(_Manifest, model("a", shape=SMALL)) == SMALL.weights + 100
    assert memory(_Manifest, model("b", shape=LARGE)) == LARGE.weights + 100
    assert memory(_Manifest, model("b")) == SMALL.weights + 100  # its class is not known


def test_needs_are_the_manifests_and_the_settings(layout):
    server = Server("server", environment={"CC": "x"})
    _, manifest = installed(layout, server=server)
    needs = readiness.needs_of(manifest, ServeConfig(host="::1", port=9), manifest.model)
    assert isinstance(needs, Needs)
    assert (needs.host, needs.port, needs.server, needs.shape) == ("::1", 9, server, SMALL)
    assert (needs.disk, needs.created) == (0, manifest.created)


def test_nothing_installed(layout):
    with pytest.raises(UsageError, match="holds no release"):
        readiness.of_installed(layout)


def test_the_latest_is_judged_where_none_is_in_service(layout, port):
    release, _ = installed(layout)
    name, findings = readiness.of_installed(layout, port=port)
    assert name == release
    assert f"127.0.0.1:{port}: free" in next(f.found for f in findings if f.name == "port")


def test_the_port_that_a_front_of_ours_holds_is_not_asked_for(layout, port):
    """Memory is what a server of ours holds, whatever has the port."""
    installed(layout, needs=bundle.Needs("2.17", (), 1000))

    def told(name, **words):
        _, findings = readiness.of_installed(layout, **words)
        return next(one for one in findings if one.name == name)

    assert told("port", held=True).found == "not asked for"
    assert told("port", running=True).found != "not asked for"
    assert told("port", held=True, port=port).found == f"127.0.0.1:{port}: free"
    assert told("memory", running=True).needed == "0 bytes"
    assert told("memory", held=True).needed == "1000 bytes"
