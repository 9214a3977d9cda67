import os

import pytest

from bundlectl.rotation import RotatingLog, rotate


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


def files(path):
    return {one.name: one.read_bytes() for one in sorted(path.parent.iterdir())}


def test_no_byte_is_lost_and_no_more_is_kept_than_wanted(path):
    log = RotatingLog(path, size=10, count=3)
    for number in range(5):
        log.write(b"line %d\n" % number)
    assert files(path) == {
        "server.log": b"line 4\n",
        "server.log.1": b"line 3\n",
        "server.log.2": b"line 2\n",
    }
    log.close()


def test_a_piece_larger_than_a_file_is_written_whole(path):
    log = RotatingLog(path, size=4, count=2)
    log.write(b"longer than that\n")
    log.write(b"x")
    assert files(path) == {"server.log": b"x", "server.log.1": b"longer than that\n"}
    log.close()


def test_what_was_there_before_is_kept_beside(path):
    path.write_bytes(b"of the run before")
    RotatingLog(path, size=100, count=5).close()
    assert files(path) == {"server.log": b"", "server.log.1": b"of the run before"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_one_file_may_be_wanted(path):
    log = RotatingLog(path, size=4, count=1)
    log.write(b"old\n")
    log.write(b"new\n")
    assert files(path) == {"server.log": b"new\n"}
    log.close()


def test_a_log_takes_the_name_of_another(path):
    old, new = RotatingLog(path, 100, 3), RotatingLog(path.with_name("candidate.log"), 100, 3)
    old.write(b"old\n")
    new.write(b"new\n")
    old.cede()
    new.become(path)
    old.write(b"last words\n" * 20)  # however many: the name is no longer its own
    new.write(b"more\n")
    assert files(path) == {
        "server.log": b"new\nmore\n",
        "server.log.1": b"old\n" + b"last words\n" * 20,
    }
    new.become(path)  # which it has
    assert files(path)["server.log"] == b"new\nmore\n"
    new.renew()
    assert files(path)["server.log.1"] == b"new\nmore\n"
    old.close()
    new.close()


def test_a_full_disk_costs_lines_and_nothing_else(path):
    log = RotatingLog(path, 100, 3)
    os.close(log._handle)
    log._handle = os.open("/dev/full", os.O_WRONLY)
    log.write(b"lost\n")
    log.close()


def test_a_link_in_the_place_of_a_log_is_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    rotate(path, 3)
    path.symlink_to(victim)
    log = RotatingLog(path, 100, 3)
    log.write(b"ours\n")
    log.close()
    assert victim.read_bytes() == b"mine"
    assert path.read_bytes() == b"ours\n"
