import errno

import pytest

from manifests.errors import FilesystemError, IntegrityError, SourceError, UsageError
from manifests.newfolder import kept, new_folder, partial_of

STAYS = [
    KeyboardInterrupt(),
    SystemExit(1),
    OSError(errno.ENOSPC, "full"),
    OSError(errno.EIO, "broken"),
    FilesystemError("full"),
    SourceError("gone"),
]
GOES = [
    IntegrityError("wrong"),
    UsageError("odd"),
    OSError(errno.EFBIG, "too large"),
    OSError(errno.EROFS, "read-only"),
    RuntimeError("a defect"),
]


def fail(folder, error, *, resumable=True, data="data"):
    with (
        pytest.raises((type(error), FilesystemError)) as caught,
        new_folder(folder, resumable=resumable) as work,
    ):
        if data:
            (work / "file").write_text(data)
        raise error
    return caught.value


@pytest.mark.parametrize("error", STAYS, ids=str)
def test_errors_that_pass_leave_what_was_written(tmp_path, error):
    folder = tmp_path / "made" / "name"
    told = fail(folder, error)
    assert (partial_of(folder) / "file").read_text() == "data"
    assert kept(folder) == 4
    assert ("keeps 4 bytes" in getattr(told, "why", "")) == isinstance(error, OSError)
    with new_folder(folder, resumable=True) as work:
        assert (work / "file").read_text() == "data"
    assert [path.name for path in folder.parent.iterdir()] == ["name"]


@pytest.mark.parametrize("error", [*GOES, *STAYS], ids=str)
def test_what_leaves_nothing(tmp_path, error):
    """Lasting errors; those that pass, where nothing was written or nobody would continue."""
    if error in GOES:
        fail(tmp_path / "made" / "name", error)
    fail(tmp_path / "made" / "name", error, data="")
    fail(tmp_path / "made" / "name", error, resumable=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_nobody_continues_starts_empty(tmp_path):
    fail(tmp_path / "name", KeyboardInterrupt())
    with new_folder(tmp_path / "name") as work:
        assert list(work.iterdir()) == []


@pytest.mark.parametrize("placed", [True, False])
def test_a_replacement_that_was_cut_off(tmp_path, placed):
    """By a kill after the old folder was put aside, before or after the new one had its name."""
    folder, old = tmp_path / "name", tmp_path / ".name.old"
    old.mkdir()
    (old / "file").write_text("old")
    if placed:
        folder.mkdir()
        (folder / "file").write_text("new")
    fail(folder, IntegrityError("wrong"))
    assert [path.name for path in tmp_path.iterdir()] == ["name"]
    assert (folder / "file").read_text() == ("new" if placed else "old")


def test_a_locked_folder_is_left_alone(tmp_path):
    with new_folder(tmp_path / "name", resumable=True) as work:
        (work / "file").write_text("data")
        with (
            pytest.raises(UsageError, match="another `bundle` is writing there"),
            new_folder(tmp_path / "name", resumable=True),
        ):
            raise AssertionError
    assert (tmp_path / "name/file").read_text() == "data"


def test_a_link_in_the_place_of_the_work_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").write_text("kept")
    (tmp_path / ".new.partial").symlink_to(elsewhere)
    with pytest.raises(FilesystemError), new_folder(tmp_path / "new"):
        pass
    assert (elsewhere / "theirs").read_text() == "kept"
