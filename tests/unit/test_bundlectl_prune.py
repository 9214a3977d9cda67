"""Releases and models that nobody needs any more: told, removed, and never half."""

import json
import subprocess
from pathlib import Path

import pytest

from bundlectl import cli, install, locks, prune, releases, removal, service
from bundlectl.layout import Layout
from manifests import placement
from manifests.audit import audit
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from tests.support.lifecycle import below, layout_at, put, serve, unchanged


@pytest.fixture
def layout(tmp_path):
    return layout_at(tmp_path / "host")


@pytest.fixture
def three(layout):
    """Three releases, of which the last serves and the one before it did."""
    names = [put(layout, name, model) for name, model in (("a", "m"), ("b", "n"), ("c", "n"))]
    for name in names:
        serve(layout, name)
    return names


def installed(layout):
    return placement.installed_releases(layout.prefix)


def models_of(layout):
    return sorted(path.name.partition("@")[0] for path in layout.models.iterdir())


def test_what_serves_and_what_served_before_stays(layout, three):
    planned = prune.prune(layout, prune.Wish())
    assert planned.releases == (three[0],)
    assert installed(layout) == three[1:]
    assert models_of(layout) == ["n"]
    assert planned.freed > 0
    assert audit(layout.prefix).intact
    assert not [path for path in below(layout.prefix) if "trash" in path]
    assert prune.prune(layout, prune.Wish()).freed == 0


@pytest.mark.parametrize(("keep", "left"), [(0, "c"), (1, "bc"), (2, "abc"), (9, "abc")])
def test_keep_counts_beside_what_serves(layout, three, keep, left):
    prune.prune(layout, prune.Wish(keep))
    assert [name[0] for name in installed(layout)] == list(left)
    assert audit(layout.prefix).intact


def test_of_releases_that_never_served_the_latest_stay(layout):
    serve(layout, put(layout, "now"))
    for name, installed_at in (("old", 3), ("older", 2), ("oldest", 1)):
        put(layout, name, installed=installed_at)
    prune.prune(layout, prune.Wish(keep=1))
    assert [name.split("-")[0] for name in installed(layout)] == ["now", "old"]


def test_a_dry_run_says_the_same_and_does_nothing(layout, three, capsys):
    words = ["--prefix", str(layout.prefix), "--json"]
    with unchanged(layout.prefix):
        assert cli.main(["prune", "--keep", "0", "--dry-run", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert cli.main(["prune", "--keep", "0", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {**told, "dry_run": False}
    assert told["releases"] == three[:2]
    assert told["kept"] == [
        {"path": f"releases/{three[2]}", "why": "in service of the instance default"}
    ]


def test_every_instance_counts(layout, three):
    other = Layout(layout.prefix, "b")
    other.create()
    serve(other, three[0])
    serve(other, three[1])
    assert prune.plan(layout, prune.Wish()).releases == ()
    assert prune.plan(layout, prune.Wish(0)).releases == (three[0],)


def test_a_bundle_of_models_stays_until_it_is_asked_for(layout, three):
    served, spare = (put(layout, name, name, alone=True) for name in ("served", "spare"))
    serve(layout, three[2], "served")
    prune.prune(layout, prune.Wish(0))
    assert {served, spare} < set(installed(layout))
    prune.prune(layout, prune.Wish(0, models=True))
    assert installed(layout) == [three[2], served]
    assert models_of(layout) == ["n", "served"]


def test_a_program_that_runs_from_a_release_keeps_it(layout, three):
    program = layout.environment(three[0]) / "bin/python"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    process = subprocess.Popen([str(program), "60"])
    try:
        (kept,) = [k for k in prune.plan(layout, prune.Wish(0)).kept if three[0] in k.path]
        assert f"process {process.pid} runs from it" in kept.why
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("place", ["env/lib/mine", "mine", "../../models/m@/mine"])
def test_a_release_with_something_else_in_it_is_told_and_left(layout, three, place):
    (model,) = layout.models.glob("m@*")
    path = layout.release(three[0]) / place.replace("m@", model.name)
    path.write_text("mine")
    with unchanged(layout.prefix):
        planned = prune.prune(layout, prune.Wish())
    assert planned.releases == ()
    assert [k.path for k in planned.kept if "mine is not of the bundle" in k.why] == [
        f"releases/{three[0]}"
    ]


def test_behind_a_link_nothing_is_removed(layout, three, tmp_path):
    (model,) = layout.models.glob("m@*")
    model.rename(tmp_path / "elsewhere")
    model.symlink_to(tmp_path / "elsewhere")
    with unchanged(tmp_path):
        planned = prune.prune(layout, prune.Wish())
    assert "no link is followed" in planned.text()


def test_what_a_damaged_release_may_need_stays(layout, three):
    path = layout.release(three[1]) / "bundle.json"
    path.write_bytes(b"{}")
    planned = prune.prune(layout, prune.Wish(0))
    assert planned.releases == (three[0],)
    assert installed(layout) == three[1:]
    assert "its papers are damaged" in planned.text()
    assert models_of(layout) == ["m", "n"]


def test_a_removal_that_was_killed_is_ended_by_the_next(layout, three):
    removal.mark(layout, three[0])
    assert installed(layout) == three[1:]
    prune.prune(layout, prune.Wish())
    assert models_of(layout) == ["n"]
    assert audit(layout.prefix).intact
    assert below(layout.receipts) == [f"{name}.json" for name in three[1:]]


def test_a_release_that_was_installed_again_is_not_removed_by_an_old_mark(layout, three):
    receipt = placement.receipt_path(layout.prefix, three[1])
    data = receipt.read_bytes()
    removal.mark(layout, three[1])
    receipt.write_bytes(data)
    prune.prune(layout, prune.Wish())
    assert installed(layout) == three[1:]
    assert audit(layout.prefix).intact


def test_releases_are_listed_with_where_they_serve(layout, three, capsys):
    put(layout, "z", "alone", alone=True)
    path = layout.release(three[0]) / "bundle.json"
    path.write_bytes(b"{}")
    lines = releases.lines(layout)
    assert [(line.name, line.in_service, line.previous) for line in lines[:3]] == [
        ("a", (), ()),
        ("b", (), ("default",)),
        ("c", ("default",), ()),
    ]
    assert "sha256" in lines[0].problem
    assert not lines[1].problem
    assert lines[3].model_only
    assert lines[1].size > 0
    assert lines[1].models == ("n",)
    assert cli.main(["releases", "--prefix", str(layout.prefix)]) == 0
    told = capsys.readouterr().out
    assert f"* {three[2]}\n" in told
    assert "served before: default" in told
    assert "DAMAGED" in told
    assert "1970-01-01" in told


def test_the_commands_refuse_in_words(layout, three, capsys):
    words = ["--prefix", str(layout.prefix)]
    assert cli.main(["prune", "--keep", "-1", *words]) == ExitCode.USAGE
    assert cli.main(["rollback", "--to", "nothing", *words]) == ExitCode.USAGE
    assert "installed: " in capsys.readouterr().err
    assert cli.main(["--instance", "Ω", "status", *words]) == ExitCode.USAGE
    assert cli.main(["--instance", "b", "status", *words]) == ExitCode.USAGE
    assert "instance create" in capsys.readouterr().err


def test_nobody_installs_or_switches_meanwhile(layout, three):
    with locks.held(layout.switch_lock, "busy", "wait"), pytest.raises(UsageError, match="putting"):
        prune.prune(layout, prune.Wish())
    with install.locked(layout), pytest.raises(UsageError, match="another install"):
        prune.prune(layout, prune.Wish())
    assert service.current(layout) == three[2]
