"""Several servers of one installation: made whole, kept apart, listed, removed."""

import json
import stat

import pytest

from bundlectl import apikey, cli, config, environment, instances, measured, models, nvidia
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout, check_instance
from bundlectl.nvidia import Gpu
from manifests.errors import TargetError, UsageError
from manifests.exitcodes import ExitCode
from tests.support.lifecycle import below, layout_at, put, serve, unchanged


@pytest.fixture
def layout(tmp_path):
    made = layout_at(tmp_path / "host")
    serve(made, put(made, "one", "a"))
    made.config_file.write_text(config.render_default())
    return made


def test_everything_but_releases_and_models_is_its_own(layout):
    other = Layout(layout.prefix, "b")
    for name in ("releases", "models", "receipts", "journal", "marker", "command", "install_lock"):
        assert getattr(other, name) == getattr(layout, name)
    own = ("current", "etc", "config_file", "api_key", "logs", "run", "cache", "own_state")
    for name in own:
        assert getattr(other, name).is_relative_to(layout.prefix / "instances/b")
        assert not getattr(layout, name).is_relative_to(layout.instances)
    assert environment.temporary_folder(other) != environment.temporary_folder(layout)
    assert models.path_of(other) != models.path_of(layout)
    assert other.spoken == f"{layout.command} --instance b"


@pytest.mark.parametrize("name", ["", "B", "a b", "../a", "-a", "a-", "a/b", "a.b", "x" * 33, "ä"])
def test_odd_names_are_refused(name):
    with pytest.raises(UsageError, match="name of an instance"):
        check_instance(name)


@pytest.mark.parametrize("name", ["a", "7", "gpu-1", "x" * 32])
def test_plain_names_are_taken(name):
    assert check_instance(name) == name


def test_a_new_one_is_complete(layout):
    made = instances.create(layout, "b", port=8001, gpus="0,1")
    one = made.layout
    assert one.current.resolve() == layout.release(layout.current_release())
    settings = config.load(one.config_file)
    assert (settings.port, settings.gpus) == (8001, "0,1")
    assert stat.S_IMODE(one.api_key.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.run.stat().st_mode) == 0o700
    assert apikey.read(one.api_key)
    assert models.to_serve(one, one.current_release()).name == "a"
    assert layout.every() == (layout, one)
    assert below(layout.instances)[0] == "b"


def test_it_can_serve_another_model_and_another_release(layout):
    two = put(layout, "two", "b")
    made = instances.create(layout, "b", port=8001, model="b", release=two)
    assert (made.release, made.model) == (two, "b")
    assert made.layout.current_release() == two
    assert layout.current_release() != two
    third = instances.create(layout, "c", port=8002, model="b")
    assert models.to_serve(third.layout, third.release).name == "b"
    assert models.to_serve(layout, layout.current_release()).name == "a"


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("b", {"port": 8000}, "port 8000 is that of the instance default"),
        ("b", {"port": 8007}, "port 8007 is that of the instance there"),
        ("there", {}, "there is an instance there already"),
        ("default", {}, "has no name"),
        ("B", {}, "name of an instance"),
        ("b", {"model": "nothing"}, "no model nothing"),
        ("b", {"release": "nothing"}, "not installed"),
        ("b", {"gpus": "all"}, "gpus is 'all'"),
    ],
)
def test_what_can_not_be_is_refused_and_leaves_nothing(layout, name, changes, told):
    instances.create(layout, "there", port=8007)
    with unchanged(layout.prefix), pytest.raises(UsageError) as caught:
        instances.create(layout, name, **{"port": 8001, **changes})
    assert told in caught.value.render()


def test_a_kill_leaves_none_and_the_next_run_makes_it(layout):
    killed = layout.instances / ".b.new"
    killed.mkdir(parents=True)
    (killed / "current").symlink_to("nowhere")
    assert layout.every() == (layout,)
    instances.create(layout, "b", port=8001)
    assert not killed.exists()
    assert [one.called for one in layout.every()] == ["default", "b"]


def test_they_are_listed_with_what_is_wrong(layout, capsys):
    for name, port in (("b", 8001), ("c", 8002)):
        instances.create(layout, name, port=port)
    second, third = layout.every()[1:]
    second.config_file.write_text("port = 8000\n")
    third.config_file.write_text("port = 'x'\n")
    words = ["--prefix", str(layout.prefix)]
    assert cli.main(["instances", "--json", *words]) == 0
    default, b, c = json.loads(capsys.readouterr().out)["instances"]
    assert (default["name"], default["model"], default["running"]) == ("default", "a", False)
    assert b["problems"] == ["port 8000 is that of the instance default"]
    assert default["problems"] == ["port 8000 is that of the instance b"]
    assert "can't be read" in c["problems"][0]
    assert cli.main(["instances", *words]) == 0
    assert "note: port 8000 is that of the instance b" in capsys.readouterr().out


def test_one_is_removed_and_the_others_stay(layout, capsys):
    for name, port in (("b", 8001), ("c", 8002)):
        instances.create(layout, name, port=port)
    words = ["--prefix", str(layout.prefix)]
    assert cli.main(["instance", "remove", "b", *words]) == ExitCode.USAGE
    assert "--yes" in capsys.readouterr().err
    assert cli.main(["instance", "remove", "b", "--yes", *words]) == 0
    assert [one.called for one in layout.every()] == ["default", "c"]
    assert below(layout.instances)[0] == "c"
    assert cli.main(["instance", "remove", "b", "--yes", *words]) == ExitCode.USAGE
    assert "has no instance 'b'" in capsys.readouterr().err
    assert cli.main(["instance", "remove", "default", "--yes", *words]) == ExitCode.USAGE
    assert "bundlectl uninstall" in capsys.readouterr().err
    instances.remove(Layout(layout.prefix, "c"))
    assert not layout.instances.exists()


def test_the_command_says_how_to_start_it(layout, capsys):
    words = ["instance", "create", "b", "--prefix", str(layout.prefix)]
    assert cli.main(words) == ExitCode.USAGE
    assert "--port" in capsys.readouterr().err
    assert cli.main([*words, "--port", "8001", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["next"] == f"{layout.command} --instance b start"
    assert cli.main(["--instance", "b", "status", "--prefix", str(layout.prefix)]) == 6
    assert cli.main(["--instance", "default", "status", "--prefix", str(layout.prefix)]) == 6


GPUS = tuple(Gpu(f"GPU-{n}{n}{n}{n}", "A10", 24 << 30, 24 << 30, index=n) for n in range(3))


@pytest.mark.parametrize(
    ("gpus", "seen", "devices"),
    [
        ("0,2", GPUS[::2], "0,2"),
        ("GPU-2222,GPU-0000", GPUS[::-2], "2,0"),
        ("MIG-12345678-aaaa", (), "MIG-12345678-aaaa"),
    ],
)
def test_the_server_sees_the_gpus_of_its_settings(gpus, seen, devices):
    settings = ServeConfig(gpus=gpus)
    assert measured.visible_to(settings)["CUDA_VISIBLE_DEVICES"] == gpus
    variables = measured.chosen(settings, seen)
    assert variables == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices}


def test_a_gpu_that_is_not_there_is_refused(tmp_path, monkeypatch):
    listed = "\n".join(f"{one.uuid}, A10, 23028, 22000, [N/A], 8.6" for one in GPUS)
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for gpus in ("3", "0,7", "GPU-9999", "1,1"):
        settings = ServeConfig(gpus=gpus)
        with pytest.raises(TargetError) as caught:
            measured.check_named(settings, nvidia.gpus(measured.visible_to(settings)))
        assert "GPU 2: GPU-2222 A10" in caught.value.findings
    for gpus in ("", "0,1", "GPU-1111", "MIG-12345678-a"):
        settings = ServeConfig(gpus=gpus)
        measured.check_named(settings, nvidia.gpus(measured.visible_to(settings)))


def test_without_that_setting_nothing_is_hidden(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert measured.chosen(ServeConfig(), GPUS) == {}
    assert "CUDA_VISIBLE_DEVICES" not in measured.visible_to(ServeConfig())


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ('gpus = "0"', True),
        ('gpus = "0,1,GPU-8932f937"', True),
        ('gpus = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"', True),
        ('gpus = "0, 1"', False),
        ('gpus = "all"', False),
        ('gpus = "0,"', False),
        ('gpus = "0"\n[environment]\nCUDA_VISIBLE_DEVICES = "1"', False),
    ],
)
def test_the_setting_is_checked(text, fine):
    if fine:
        assert config.parse(text, "x").gpus
    else:
        with pytest.raises(UsageError, match="x:1: gpus"):
            config.parse(text, "x")
