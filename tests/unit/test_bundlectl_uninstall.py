"""Uninstalling takes what is ours, tells of what is not, and continues after a kill."""

import json
import os
import pty
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from bundlectl import (
    cli,
    environment,
    instances,
    locks,
    removal,
    serviceunit,
    uninstall,
    unitfiles,
    units,
)
from bundlectl.dismantling import Wish
from bundlectl.layout import Layout, check_prefix
from manifests.audit import audit
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from tests.support.lifecycle import below, layout_at, put, serve, unchanged
from tests.support.mounts import mounted, needs_root, tmpfs


@pytest.fixture
def layout(tmp_path):
    """Two releases, two instances, and everything that servers and installs leave."""
    made = layout_at(tmp_path / "host")
    for name in ("one", "two"):
        serve(made, put(made, name, name))
    put(made, "more", "more", alone=True)
    instances.create(made, "b", port=8001, model="more")
    for one in made.every():
        environment.prepare(one)
        (one.cache / "triton/kernel.so").touch()
        (one.logs / "server.log.1").touch()
        (one.run / "server.lock").touch()
    for path in ("bin/bundlectl", "etc/serve.toml", "etc/api-key", "state/sequences.json"):
        (made.prefix / path).write_text("")
    (made.journal / f"{'0' * 64}.txt").touch()
    (made.releases / "three-0123456789ab.partial/env").mkdir(parents=True)
    short = [environment.temporary_folder(one) for one in made.every()]
    yield made
    for path in short:
        if path.is_symlink():
            path.unlink()


def take(layout, **wish):
    return uninstall.uninstall(layout, Wish(**wish))


def test_all_of_it_goes(layout):
    planned = take(layout)
    assert not layout.prefix.exists()
    assert planned.left == planned.kept == ()
    assert len(planned.releases) == 3
    assert planned.freed > 0


def test_a_dry_run_tells_and_changes_nothing(layout, capsys):
    (layout.prefix / "mine").touch()
    words = ["uninstall", "--prefix", str(layout.prefix)]
    with unchanged(layout.prefix):
        assert cli.main([*words, "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"]
    assert told["left"] == ["mine"]
    assert cli.main([*words, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**told, "dry_run": False}
    assert below(layout.prefix) == ["mine"]


FOREIGN = [
    "mine",
    "bin/tool",
    "etc/trusted-key.pem",
    "instances/b/etc/notes",
    "instances/mine.txt",
    "releases/other/file",
    "state/logs/notes",
    "state/notes/deep/file",
]


@pytest.mark.parametrize("place", [*FOREIGN, "env/lib/mine", "env/share/deep/mine", "weights"])
def test_what_is_not_ours_is_told_and_left_with_its_folder(layout, place):
    if place.startswith("env"):
        place = f"releases/{layout.current_release()}/{place}"
    if place == "weights":
        place = f"{next(layout.models.glob('two@*')).relative_to(layout.prefix)}/sub/mine"
    path = layout.prefix / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    planned = take(layout)
    assert path.read_text() == "mine"
    folders = {str(folder) for folder in Path(place).parents} - {"."}
    assert set(below(layout.prefix)) == {place, *folders}
    assert len(planned.left) == 1
    assert place.startswith(planned.left[0])
    assert f"left, it is none of ours: {planned.left[0]}" in planned.text()


@pytest.mark.parametrize("place", ["cache", "models", "etc", "instances", "state/logs", "releases"])
def test_no_link_is_followed(layout, tmp_path, place):
    path, elsewhere = layout.prefix / place, tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with unchanged(elsewhere):
        planned = take(layout)
    # Without releases nobody knows whose the models are.
    models = [name for name in planned.left if name.startswith("models/")]
    assert {*planned.left} == {place, *models}
    assert len(models) == (3 if place == "releases" else 0)
    assert path.is_symlink()


def test_links_inside_of_what_is_ours_go_and_their_targets_stay(layout, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    (layout.cache / "link").symlink_to(target)
    folder = layout.environment(layout.current_release()) / "lib"
    shutil.rmtree(folder)
    folder.symlink_to(target)  # in the place of a listed folder
    with unchanged(target):
        assert take(layout).left == ()
    assert not layout.prefix.exists()


def test_models_and_settings_can_be_kept_and_are_found_again(layout):
    before = {path: path.stat().st_ino for path in layout.models.rglob("*")}
    planned = take(layout, models=True, settings=True)
    assert planned.kept == ("etc", "instances/b/etc", "models")
    assert {path: path.stat().st_ino for path in layout.models.rglob("*")} == before
    assert (layout.state / "sequences.json").exists()
    assert check_prefix(layout.prefix) == layout.prefix
    assert not layout.releases.exists()
    assert [one.called for one in layout.every()] == ["default", "b"]
    put(layout_at(layout.prefix), "two", "two")
    take(layout)
    assert not [p for p in below(layout.prefix) if p.startswith(("models/two", "state", "bin"))]


def test_units_of_every_instance_go(layout, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "systemd/user"
    folder.mkdir(parents=True)
    for one in layout.every():
        wish = units.Wish(user=True)
        unitfiles.install(one, wish, serviceunit.render(one, wish), folder)
    assert len(list(folder.glob("*.service"))) >= 2
    (folder / "another.service").touch()
    take(layout)
    assert [path.name for path in folder.rglob("*") if not path.is_dir()] == ["another.service"]
    assert not layout.prefix.exists()


def test_a_damaged_release_is_taken_with_the_manifest_at_hand(layout):
    release = layout.current_release()
    manifest = removal.identified(layout, release)
    (layout.release(release) / "bundle.json").write_bytes(b"{}")
    left = uninstall.plan(layout, Wish()).left
    assert f"releases/{release}" in left
    done = uninstall.uninstall(layout, Wish(), manifest)
    assert done.left == ()
    assert not layout.prefix.exists()


def test_a_lost_receipt_does_not_matter(layout):
    for path in layout.receipts.iterdir():
        path.unlink()
    assert take(layout).left == ()
    assert not layout.prefix.exists()


def test_the_short_name_in_tmp_goes(tmp_path):
    long = layout_at(tmp_path / ("x" * 60))
    environment.prepare(long)
    short = environment.temporary_folder(long)
    assert short.is_symlink()
    take(long)
    assert not os.path.lexists(short)
    assert not long.prefix.exists()


def refused(layout):
    with unchanged(layout.prefix), pytest.raises(UsageError) as caught:
        uninstall.uninstall(layout, Wish())
    return caught.value.what


def test_odd_folders_are_refused(layout, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(layout.prefix)
    assert "it is a link" in refused(Layout(link))
    assert "no such folder" in refused(Layout(tmp_path / "nothing"))
    foreign = tmp_path / "foreign"
    (foreign / "etc").mkdir(parents=True)
    assert "no installation" in refused(Layout(foreign))
    layout.marker.unlink()
    assert "no installation" in refused(layout)
    layout.marker.symlink_to("/etc/hostname")
    assert "no installation" in refused(layout)
    (tmp_path / "empty").mkdir()
    assert "no installation" in refused(Layout(tmp_path / "empty"))


@needs_root
def test_another_accounts_installation_is_refused(layout):
    os.chown(layout.prefix, 123456, 123456)
    assert "uid 123456" in refused(layout)


@needs_root
def test_a_whole_file_system_goes_only_if_nothing_else_is_in_it(tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=16m", "tmpfs") as disk:
        layout = layout_at(disk)
        put(layout, "one")
        (disk / "photos").mkdir()
        assert "holds something else (photos)" in refused(layout)
        (disk / "photos").rmdir()
        (disk / "lost+found").mkdir()
        take(layout)
        assert below(disk) == ["lost+found"]


@needs_root
@pytest.mark.parametrize("place", ["cache", "models", "releases"])
def test_what_is_mounted_is_emptied_and_its_mount_point_told(layout, place):
    """Disks of their own for large folders; they come back with what was in the folders."""
    folder = layout.prefix / place
    folder.rename(layout.prefix.parent / "moved")
    with tmpfs(folder, "size=16m"):
        shutil.copytree(layout.prefix.parent / "moved", folder, dirs_exist_ok=True, symlinks=True)
        told = f"{place} (a mount point)"
        assert uninstall.plan(layout, Wish()).left == (told,)
        assert take(layout).left == (told,)
        assert below(layout.prefix) == [place]


@needs_root
def test_a_mounted_model_is_emptied(layout):
    """Others go first, and the run does not end half-way."""
    folder = next(layout.models.glob("one@*"))
    shutil.move(folder, layout.prefix.parent / "moved")
    with tmpfs(folder, "size=16m"):
        shutil.copytree(layout.prefix.parent / "moved", folder, dirs_exist_ok=True)
        assert take(layout).left == (f"models/{folder.name} (a mount point)",)
        assert below(layout.prefix) == ["models", f"models/{folder.name}"]


def test_nobody_else_works_on_it(layout):
    for path in (layout.install_lock, layout.switch_lock, Layout(layout.prefix, "b").switch_lock):
        with locks.held(path, "busy", "wait"):
            refused(layout)


def test_programs_that_run_from_it_are_told(layout, monkeypatch):
    monkeypatch.setattr(uninstall, "_LINGERING", 0.2)
    program = layout.environment(layout.current_release()) / "bin/python"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    process = subprocess.Popen([str(program), "60"])
    try:
        assert f"process {process.pid}" in refused(layout)
    finally:
        process.kill()
        process.wait()


def test_it_wants_a_yes(layout, capsys, monkeypatch):
    words = ["uninstall", "--prefix", str(layout.prefix)]
    with unchanged(layout.prefix):
        assert cli.main(words) == ExitCode.USAGE
    assert "--yes" in capsys.readouterr().err
    assert cli.main([*words, "--instance", "b", "--yes"]) == ExitCode.USAGE
    assert "instance remove b" in capsys.readouterr().err
    for answer, status in ((b"no\n", ExitCode.USAGE), (b"yes\n", ExitCode.OK)):
        leader, follower = pty.openpty()
        with os.fdopen(os.dup(follower)) as typed, os.fdopen(follower, "w") as shown:
            monkeypatch.setattr("sys.stdin", typed)
            monkeypatch.setattr("sys.stderr", shown)
            os.write(leader, answer)
            assert cli.main(words) == status
            asked = ""
            while "would be removed" not in asked:  # a terminal hands on in pieces, its echo first
                assert select.select([leader], [], [], 20)[0], asked
                asked += os.read(leader, 4096).decode()
        os.close(leader)
    assert not layout.prefix.exists()


def test_what_is_left_of_an_uninstall_can_be_installed_over(layout):
    take(layout, models=True)
    again = layout_at(layout.prefix)
    put(again, "two", "two")
    put(again, "one", "one")
    put(again, "more", "more", alone=True)
    assert audit(layout.prefix).intact
