"""What is written in a folder of another account goes nowhere else, whatever was put there."""

import os

import pytest

from bundlectl import apikey
from bundlectl.journal import Journal
from bundlectl.layout import Layout
from bundlectl.syncing import write_whole
from manifests import synced


@pytest.fixture
def other(tmp_path):
    """A file that is nobody's business here."""
    path = tmp_path / "other"
    path.write_text("untouched")
    return path


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_planted_draft_is_replaced(tmp_path, other, plant):
    path = tmp_path / "etc/serve.toml"
    path.parent.mkdir()
    plant(other, path.with_name(".serve.toml.new"))
    write_whole(path, b"new", 0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert not path.is_symlink()
    assert other.read_text() == "untouched"


def test_a_link_in_the_place_of_the_file_itself_is_replaced(tmp_path, other):
    path = tmp_path / "paper"
    path.symlink_to(other)
    write_whole(path, b"new", 0o644)
    assert not path.is_symlink()
    assert other.read_text() == "untouched"


def test_a_new_file_is_not_written_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        synced.write(tmp_path / "link", b"x", 0o644)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_the_draft_of_a_key(tmp_path, other, plant):
    path = tmp_path / "api-key"
    plant(other, path.with_name(f".api-key.{os.getpid()}"))
    assert len(apikey.ensure(path)) > 20
    assert other.read_text() == "untouched"


def test_a_journal_that_is_a_link(tmp_path, other):
    (tmp_path / "journal").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        Journal(tmp_path / "journal").add("member")
    assert other.read_text() == "untouched"


def test_a_marker_that_is_a_link(tmp_path):
    layout = Layout(tmp_path / "host")
    layout.state.mkdir(parents=True)
    layout.marker.symlink_to(tmp_path / "nowhere")
    layout.create()
    assert not (tmp_path / "nowhere").exists()
