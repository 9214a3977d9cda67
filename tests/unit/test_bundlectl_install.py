"""The command `bin/bundlectl`, and what an install leaves alone because it is in use."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundlectl import cli, install, service
from bundlectl.layout import Layout
from bundlectl.process import KEEPER, SLOTS, Service, Supervisor
from bundlectl.rehearse import PLACE
from manifests.exitcodes import ExitCode
from tests.support import killing
from tests.support.lifecycle import layout_at

#: What a program sees of where it comes from.
PROGRAM = "import json, sys; print(json.dumps([sys.prefix, sys.path, sys.argv[1:]]))\n"


def release(layout, name):
    """A release whose Python is a whole one, with a program that tells of itself."""
    runtime = layout.runtime(name)
    packages = runtime / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (runtime / "bin").mkdir()
    program = Path(sys.executable).resolve()
    (runtime / "bin/python").symlink_to(program)
    # site.py: with this file beside it, its modules are those of this folder.
    (runtime / "pyvenv.cfg").write_text(f"home = {program.parent}\n")
    (packages / "bundlectl.py").write_text(PROGRAM)


SHELLS = [("dash",), ("bash", "--posix"), ("busybox", "ash")]


@pytest.fixture
def launched(tmp_path):
    """Two releases, the second in service; a function that runs the command with some words."""
    layout = layout_at(tmp_path / "a prefix's $HOME")
    for name in ("one", "two"):
        release(layout, name)
    layout.command.write_bytes(install.launcher(layout))
    service.switch(layout, "two")

    def run(*words, shell=("sh",)):
        done = subprocess.run(
            [*shell, layout.command, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        prefix, path, told = json.loads(done.stdout)
        assert told == ["--prefix", str(layout.prefix), *words]
        assert any(place.startswith(prefix) for place in path)
        assert not [place for place in path if "current" in place]
        return Path(prefix).parent.name

    run.layout = layout
    return run


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_program_is_of_one_release_whatever_is_switched_under_it(launched, shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"this machine lacks {shell[0]}")
    assert launched("status", "with two words", shell=shell) == "two"
    launched.layout.current.unlink()
    launched.layout.current.symlink_to("releases/gone")
    assert launched(shell=shell) == "one"
    launched.layout.current.unlink()
    assert launched(shell=shell) == "one"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_an_instance_runs_the_program_of_its_own_release(launched, shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"this machine lacks {shell[0]}")
    other = Layout(launched.layout.prefix, "b")
    other.create()
    assert launched("--instance", "b", "status", shell=shell) == "two"  # it has none yet
    service.switch(other, "one")
    for words in (("--instance", "b"), ("--instance=b",), ("start", "--instance", "b")):
        assert launched(*words, shell=shell) == "one"
    for words in (("--instance", "default"), ("--instance=c",), ("--instance", "../instances/b")):
        assert launched(*words, shell=shell) == "two"


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def host(media, tmp_path):
    """The layout of an installation, and a function that has something run from it."""
    layout = Layout(tmp_path / "host")
    assert again(layout, media, "install") == 0
    started = []

    def run(name, release="", folders=()):
        started.append(Supervisor(layout, name))
        what = Service("", 0, "", release or killing.release_of(media), folders)
        started[-1].start(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, what)

    run.layout = layout
    yield run
    for one in started:
        one.stop(0)


def again(layout, media, command):
    """Install, or repair, once more."""
    words = ["--ignore", "port", "--ignore", "glibc", "--no-start"]
    words = [command, *(words if command == "install" else ())]
    return cli.main(
        [*words, "--media", str(media[0]), "--manifest", media[1], "--prefix", str(layout.prefix)]
    )


def harm(path):
    path.write_bytes(path.read_bytes() + b"x")


@pytest.mark.parametrize("command", ["install", "repair"])
@pytest.mark.parametrize("name", [*SLOTS, PLACE])
def test_what_is_damaged_is_left_under_every_server_and_rehearsal(
    host, media, capsys, command, name
):
    """Also under one that is about to take the place of the one in service."""
    (model,) = (host.layout.prefix / "models").iterdir()
    host(name, folders=(f"models/{model.name}",))
    for path in (model / "config.json", host.layout.environment(killing.release_of(media))):
        path = path / "bin/tool" if path.is_dir() else path
        sound = path.read_bytes()
        harm(path)
        assert again(host.layout, media, command) == ExitCode.USAGE
        assert "the server of the instance default (process" in capsys.readouterr().err
        path.write_bytes(sound)


def test_a_keeper_uses_its_runtime_alone(host, media, capsys):
    """Its record names no folders, as that of an older program's server."""
    (model,) = (host.layout.prefix / "models").iterdir()
    folder = host.layout.release(killing.release_of(media))
    host(KEEPER)
    for path in (model / "config.json", folder / "env/bin/tool"):
        harm(path)
        assert again(host.layout, media, "repair") == 0
    harm(folder / "runtime/bin/python")
    assert again(host.layout, media, "repair") == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "runtime/bin/python: wrong, and the keeper of the instance default" in told
    # An install takes a release's whole folder away.
    assert again(host.layout, media, "install") == ExitCode.USAGE


def test_a_keeper_of_another_release_does_not_keep_an_install_from_mending(host, media):
    (model,) = (host.layout.prefix / "models").iterdir()
    host(KEEPER, release="older")
    harm(model / "config.json")
    assert again(host.layout, media, "install") == 0


def test_a_record_of_an_older_program_may_mean_any_model(host, media, capsys):
    (model,) = (host.layout.prefix / "models").iterdir()
    host(SLOTS[0], release="older")
    harm(model / "config.json")
    for command in ("install", "repair"):
        assert again(host.layout, media, command) == ExitCode.USAGE
        assert "config.json" in capsys.readouterr().err or command == "install"
