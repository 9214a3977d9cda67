"""What is mounted inside of an installation is emptied, and its mount point stays."""

import pytest

from bundlectl import discard
from tests.support.lifecycle import below
from tests.support.mounts import mounted, needs_root, tmpfs

pytestmark = needs_root


@pytest.fixture(params=["another", "the same"])
def mount(request, tmp_path):
    """A mount of another file system, or of a folder of the same one, which no number tells."""
    place, source = tmp_path / "host/cache/deep", tmp_path / "source"
    source.mkdir()
    if request.param == "another":
        with tmpfs(place) as folder:
            yield folder
    else:
        with mounted(place, "--bind", str(source)) as folder:
            yield folder


def filled(mount):
    (mount / "triton").mkdir()
    (mount / "triton/kernel.so").touch()
    (mount / "lost+found").mkdir()
    (mount.parent / "beside").touch()


def test_a_folder_above_a_mount(mount):
    filled(mount)
    discard.whole(mount.parent)
    assert below(mount.parent) == ["deep", "deep/lost+found"]


def test_the_mount_itself(mount):
    filled(mount)
    discard.set_aside(mount)
    assert below(mount.parent) == ["beside", "deep", "deep/lost+found"]


def test_an_empty_mount(mount):
    discard.if_empty(mount)
    assert mount.is_dir()
    assert discard.mounts(mount.parent) == {mount}


def test_a_mounted_file(tmp_path):
    (tmp_path / "secret").write_text("key")
    place = tmp_path / "host/etc/api-key"
    place.parent.mkdir(parents=True)
    place.touch()
    with mounted(place, "--bind", str(tmp_path / "secret")):
        discard.whole(place.parent)
        assert place.read_text() == "key"
