import errno
import os

import pytest

from bundlectl import blocks
from bundlectl.blocks import Growing, reopen
from bundlectl.extract import new_file


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 100)


def test_only_what_was_synced_is_told(tmp_path, monkeypatch):
    events = []
    sync = os.fdatasync

    def syncing(file):
        events.append(("synced", os.fstat(file).st_size))
        sync(file)

    monkeypatch.setattr(os, "fdatasync", syncing)
    with new_file(tmp_path / "file") as handle:
        with Growing(handle, lambda size: events.append(("told", size))) as growing:
            for _ in range(30):
                growing.write(memoryview(bytes(11)))
                growing.settle()
        assert handle.tell() == 330
    told = [size for what, size in events if what == "told"]
    assert told == [110, 220, 330]
    assert [what for what, _ in events] == ["synced", "told"] * 3
    assert all(
        synced >= size for (_, synced), (_, size) in zip(events[::2], events[1::2], strict=True)
    )


def test_a_disk_that_does_not_take_a_block(tmp_path, monkeypatch):
    def fail(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    told = []
    with (
        new_file(tmp_path / "file") as handle,
        pytest.raises(OSError, match="Input/output"),
        Growing(handle, told.append) as growing,
    ):
        growing.write(memoryview(bytes(150)))
        growing.settle()
    assert told == []


def test_a_continued_file_counts_from_its_start(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 170)
    told = []
    with reopen(tmp_path / "file", 120) as handle:
        assert handle.read() == b"x" * 120
        with Growing(handle, told.append) as growing:
            growing.write(memoryview(b"y" * 100))
            growing.settle()
    assert told == [220]
    assert (tmp_path / "file").read_bytes() == b"x" * 120 + b"y" * 100


def test_what_is_not_the_file_that_was_begun(tmp_path):
    (tmp_path / "short").write_bytes(b"x" * 9)
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").write_bytes(b"x" * 20)
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "second").hardlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "short", "folder", "link", "second", "other", "pipe"):
        assert reopen(tmp_path / name, 10) is None, name
    assert (tmp_path / "other").read_bytes() == b"x" * 20
