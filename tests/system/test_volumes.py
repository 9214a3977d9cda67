"""A bundle in volumes, from `bundle create --volume-size` to an installed release."""

import shutil

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, control, install


@pytest.fixture(scope="module")
def in_volumes(workplace, tmp_path_factory):
    output = tmp_path_factory.mktemp("volumes")
    return workplace.create(output, "--volume-size", "29M")


@pytest.fixture
def own(in_volumes, tmp_path):
    return shutil.copytree(in_volumes, tmp_path / in_volumes.name)


def volumes(folder):
    return sorted(folder.glob("*.tar.*"))


def test_installs_straight_from_volumes(in_volumes, tmp_path):
    assert len(volumes(in_volumes)) >= 2
    assert bundle("audit", str(in_volumes)).returncode == 0
    done = install(in_volumes, "--prefix", str(tmp_path / "host"), "--no-start")
    assert done.returncode == 0, done.stderr
    assert control(tmp_path / "host", "audit").returncode == 0


def test_volumes_in_several_folders(own, tmp_path):
    disc = tmp_path / "disc 2"
    disc.mkdir()
    for volume in volumes(own)[1:]:
        shutil.move(volume, disc / volume.name)
    prefix = str(tmp_path / "host")
    refused = install(own, "--prefix", prefix, "--no-start")
    assert refused.returncode == ExitCode.SOURCE
    assert ".tar.001: not on this medium" in refused.stderr
    assert "--volumes-in" in refused.stderr
    done = install(own, "--volumes-in", str(disc), "--prefix", prefix, "--no-start")
    assert done.returncode == 0, done.stderr


def test_a_damaged_volume_is_named(own, tmp_path):
    path = volumes(own)[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = install(own, "--prefix", str(tmp_path / "host"), "--no-start")
    assert done.returncode == ExitCode.INTEGRITY
    assert not list((tmp_path / "host/releases").glob("*[!l]"))
    audited = bundle("audit", str(own))
    assert audited.returncode == ExitCode.INTEGRITY
    assert f"altered: {path.name}" in audited.stdout


@pytest.mark.parametrize("size", ["tiny", "12", "-1"])
def test_an_impossible_size_is_refused_early(workplace, tmp_path, size):
    done = bundle("create", *workplace.flags(), "--output", str(tmp_path), "--volume-size", size)
    assert done.returncode == ExitCode.USAGE
    assert "mend:" in done.stderr
    assert not list(tmp_path.iterdir())
