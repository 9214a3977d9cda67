"""An installation's whole life: two servers, an upgrade, back, pruned, gone without a trace."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from bundlectl import environment, instances
from bundlectl.layout import Layout
from manifests import placement
from manifests.audit import audit
from manifests.exitcodes import ExitCode
from tests.support import killing
from tests.support.lifecycle import below, layout_at, put, serve
from tests.support.mounts import needs_root
from tests.support.small import control, free_port, install
from tests.system.conftest import end_servers, servers

CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def root():
    """A folder where every account can come to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "neighbour").write_text("not ours")
        yield folder
        end_servers(folder)


@pytest.fixture(scope="module")
def two(small_bundle, root):
    """An installation with two servers; its path is so long that sockets get a short one."""
    prefix = root / ("long-" * 8 + "path") / "host"
    done = install(small_bundle, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    made = control(prefix, "instance", "create", "b", "--port", str(free_port()))
    assert made.returncode == 0, made.stderr
    started = control(prefix, "--instance", "b", "start")
    assert started.returncode == 0, started.stderr
    return prefix


def told(prefix, *words):
    done = control(prefix, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.e2e
def test_two_servers_at_once_each_with_its_own_key(two):
    first, second = told(two, "instances")["instances"]
    assert first["running"]
    assert second["running"]
    keys = [(place / "etc/api-key").read_text() for place in (two, two / "instances/b")]
    assert keys[0] != keys[1]
    for words in ((), ("--instance", "b")):
        assert told(two, *words, "ask", "Hello")["content"] is not None
    both = told(two, "status"), told(two, "--instance", "b", "status")
    assert both[0]["pid"] != both[1]["pid"]
    taken = control(two, "instance", "create", "c", "--port", str(second["port"]))
    assert taken.returncode == ExitCode.USAGE
    assert str(second["port"]) in taken.stderr


@pytest.mark.e2e
@needs_root
def test_another_account_sees_what_modes_allow(two):
    account = ("setpriv", "--reuid=123456", "--regid=123456", "--clear-groups")

    def other(*words):
        command = [*account, str(two / "bin/bundlectl"), *words]
        return subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=False)

    for words in (("releases",), ("instances",), ("audit",)):
        done = other(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert "state not visible" in other("instances").stdout
    seen = other("--instance", "b", "status")
    assert seen.returncode == ExitCode.FILESYSTEM
    assert "not visible to this account" in seen.stdout
    for words in (
        ("rollback", "--to", placement.current_release(two)),
        ("prune",),
        ("prune", "--dry-run"),
        ("uninstall", "--yes"),
        ("instance", "create", "c", "--port", "8123"),
        ("instance", "remove", "b", "--yes"),
        ("--instance", "b", "ask", "Hello"),
    ):
        done = other(*words)
        assert done.returncode in (ExitCode.USAGE, ExitCode.FILESYSTEM), (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert "mend:" in done.stderr
    assert control(two, "ask", "Hello").returncode == 0


@pytest.mark.e2e
def test_upgrade_back_prune_and_gone(two, newer_bundle, root):
    (old,) = placement.installed_releases(two)
    done = install(newer_bundle, "--prefix", str(two))
    assert done.returncode == 0, done.stderr
    new = placement.current_release(two)
    assert new != old
    for expected in (old, new):
        assert told(two, "rollback", "--audit")["release"] == expected
        assert told(two, "status")["release"] == expected
    assert told(two, "--instance", "b", "status")["release"] == old
    done = install(newer_bundle, "--prefix", str(two), "--instance", "b")
    assert done.returncode == 0, done.stderr
    assert told(two, "--instance", "b", "status")["release"] == new
    assert told(two, "--instance", "b", "rollback")["release"] == old
    lines = {line["release"]: line for line in told(two, "releases")["releases"]}
    assert (lines[new]["in_service"], lines[old]["in_service"]) == (["default"], ["b"])
    assert lines[old]["previous"] == ["default"]

    assert told(two, "prune", "--keep", "0")["releases"] == []  # b serves it
    assert control(two, "instance", "remove", "b", "--yes").returncode == 0
    assert len(servers(two)) == 1
    assert told(two, "prune")["releases"] == []  # it served before
    # The front is a program of the release that it was started from, until it ends itself.
    assert control(two, "stop").returncode == control(two, "start").returncode == 0
    assert told(two, "prune", "--keep", "0")["releases"] == [old]
    assert audit(two).intact
    gone = control(two, "rollback")
    assert gone.returncode == ExitCode.USAGE
    assert "was removed" in gone.stderr
    assert control(two, "ask", "Hello").returncode == 0

    short = environment.temporary_folder(Layout(two))
    assert short.is_symlink()
    assert control(two, "uninstall").returncode == ExitCode.USAGE
    done = control(two, "uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"removed: all of {two}" in done.stdout
    assert done.stderr == ""
    assert servers(root) == []
    assert not os.path.lexists(short)
    assert below(root) == sorted(["neighbour", two.parent.name])


@pytest.mark.e2e
def test_from_the_medium_where_nothing_runs_any_more(small_bundle, tmp_path):
    prefix = tmp_path / "host"
    done = install(small_bundle, "--prefix", str(prefix), "--no-start", "--ignore", "port")
    assert done.returncode == 0, done.stderr
    (release,) = (prefix / "releases").iterdir()
    (release / "bundle.json").write_text("{}")
    shutil.rmtree(release / "runtime/lib")
    assert control(prefix, "uninstall", "--yes").returncode == ExitCode.INTEGRITY
    looked = install(small_bundle, "uninstall", "--prefix", str(prefix), "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert (release / "bundle.json").exists()
    done = install(small_bundle, "uninstall", "--prefix", str(prefix), "--yes")
    assert done.returncode == 0, done.stderr
    assert below(tmp_path) == []


#: Words of `bundlectl`.
_COMMANDS = """
import bundlectl.cli, bundlectl.removal

def command(run, words):
    bundlectl.removal.sync = run.strike
    sys.addaudithook(run.hook)
    return bundlectl.cli.main(words)

serve(command)
"""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    errors = tmp_path_factory.mktemp("log") / "errors"
    with contextlib.closing(killing.Forked(_COMMANDS, errors)) as process:
        yield process


@pytest.fixture
def pattern(tmp_path):
    """Three releases with a model each, one in service, and a second instance."""
    layout = layout_at(tmp_path / "pattern")
    for name in ("one", "two", "three"):
        serve(layout, put(layout, name, name))
    instances.create(layout, "b", port=8001)
    (layout.etc / "mine").touch()
    return layout.prefix


def sweep(victim, pattern, prefix, *words):
    """Kill the command before each of its steps; yields after each kill."""
    shutil.copytree(pattern, prefix, symlinks=True)
    words = (*words, "--prefix", str(prefix))
    status, steps = victim.run(0, *words)
    assert status == 0, victim.told()
    for step in range(1, steps + 1):
        shutil.rmtree(prefix, ignore_errors=True)
        shutil.copytree(pattern, prefix, symlinks=True)
        assert victim.run(step, *words)[0] == -9
        yield step
    assert steps > 30


@pytest.mark.e2e
def test_a_prune_that_is_killed_leaves_whole_releases_only(victim, pattern, tmp_path):
    prefix = tmp_path / "host"
    *old, new = sorted(
        placement.installed_releases(pattern), key=lambda name: name.startswith("three")
    )
    for step in sweep(victim, pattern, prefix, "prune", "--keep", "0"):
        there = placement.installed_releases(prefix)
        assert new in there
        findings = audit(prefix).findings
        assert not [f for f in findings if any(name in f.path for name in there)], step
        status, _ = victim.run(0, "prune", "--keep", "0", "--prefix", str(prefix))
        assert status == 0, (step, victim.told())
        assert placement.installed_releases(prefix) == [new], step
        assert audit(prefix).intact, step
        left = [path for path in below(prefix) if "trash" in path or any(o in path for o in old)]
        assert left == [], step
    assert len(old) == 2


@pytest.mark.e2e
def test_an_uninstall_that_is_killed_is_ended_by_the_next(victim, pattern, tmp_path):
    prefix = tmp_path / "host"
    words = ("uninstall", "--yes", "--prefix", str(prefix))
    for step in sweep(victim, pattern, prefix, "uninstall", "--yes"):
        status, _ = victim.run(0, *words)
        left = ["etc", "etc/mine"]
        if status == ExitCode.USAGE:  # nothing is left that says that it was ours
            assert "no installation" in victim.told(), step
            left += ["state"] * (prefix / "state").exists()
        else:
            assert status == 0, (step, victim.told())
        assert below(prefix) == left, step
