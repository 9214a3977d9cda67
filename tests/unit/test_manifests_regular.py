import os

import pytest

from manifests import regular
from manifests.errors import Damage


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert regular.read(tmp_path / "file") == b"content"
    assert regular.read(tmp_path / "link", limit=7) == b"content"


def test_more_than_the_limit_is_refused(tmp_path):
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 40)  # sparse
    with pytest.raises(Damage, match="file: expected 6 bytes at the most, found 1099511627776"):
        regular.read(path, limit=6)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/dev/tty"),
    ],
    ids=["fifo", "folder", "endless", "terminal"],
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    path = tmp_path / "file"
    make(path)
    with pytest.raises((Damage, OSError)):  # without a terminal there is no /dev/tty
        regular.read(path)


def test_what_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        regular.read(tmp_path / "nothing")
