import os
import stat
from pathlib import Path

import pytest

from bundlectl import apikey
from bundlectl.layout import LONGEST_PREFIX, ROOT_PREFIX, Layout, check_prefix, default_prefix
from manifests.errors import FilesystemError, UsageError

NOBODY = 123456  # a uid without an entry in the account database


@pytest.fixture
def strict_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "uid", "expected"),
    [
        ({"HOME": "/root"}, 0, ROOT_PREFIX),
        ({}, 0, ROOT_PREFIX),
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/me"}, 1000, Path("/data/vllm-bundle")),
        ({"XDG_DATA_HOME": "data", "HOME": "/home/me"}, 1000, "/home/me/.local/share/vllm-bundle"),
        ({"XDG_DATA_HOME": "", "HOME": "/home/me"}, 1000, "/home/me/.local/share/vllm-bundle"),
    ],
)
def test_default_prefix(environ, uid, expected):
    assert default_prefix(environ, uid) == Path(expected)


def test_default_prefix_asks_the_account_database_where_home_is_unset():
    import pwd

    account = next(entry for entry in pwd.getpwall() if entry.pw_uid and len(entry.pw_dir) > 1)
    uid = account.pw_uid
    home = pwd.getpwuid(uid).pw_dir
    assert default_prefix({}, uid) == Path(home) / ".local/share/vllm-bundle"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "/"}, {"HOME": "relative"}])
def test_an_account_without_a_home_has_to_name_a_prefix(environ):
    with pytest.raises(UsageError) as caught:
        default_prefix(environ, NOBODY)
    assert "--prefix" in caught.value.mend


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        ("/", "root of the file system"),
        ("//", "root of the file system"),
        ("~/bundle", "~"),
        ("/opt/../etc", ".."),
        ("../bundle", ".."),
        ("/opt/a:b", "colon"),
        ("/opt/a\nb", "printed"),
        ("/opt/a\x1b[31m", "printed"),
        (os.fsdecode(b"/opt/a\xff"), "printed"),
    ],
)
def test_odd_paths_are_refused(path, why):
    with pytest.raises(UsageError) as caught:
        check_prefix(path, {})
    assert why in caught.value.render()
    caught.value.render().encode()  # can be printed


def test_length_is_counted_in_bytes(tmp_path):
    room = LONGEST_PREFIX - len(os.fsencode(tmp_path)) - 1
    fits = tmp_path / ("ä" * (room // 2))
    assert check_prefix(fits, {}) == fits
    with pytest.raises(UsageError, match="can't be the prefix"):
        check_prefix(tmp_path / ("ä" * (room // 2 + 1)), {})


def test_home_itself_is_refused_and_a_folder_in_it_is_not(tmp_path):
    environ = {"HOME": str(tmp_path)}
    (tmp_path / "link").symlink_to(tmp_path)
    for home in (tmp_path, tmp_path / "link", f"{tmp_path}/"):
        with pytest.raises(UsageError):
            check_prefix(home, environ)
    assert check_prefix(tmp_path / "bundle", environ) == tmp_path / "bundle"


def test_a_path_with_a_space_and_a_relative_one_are_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_prefix("my bundle", {}) == tmp_path / "my bundle"


def test_foreign_content_is_refused_and_ours_is_accepted(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    assert check_prefix(foreign, {}) == foreign  # empty
    (foreign / "thesis.tex").touch()
    with pytest.raises(UsageError, match="can't be the prefix") as caught:
        check_prefix(foreign, {})
    assert "thesis.tex" in caught.value.why
    ours = tmp_path / "ours"
    Layout(ours).create()
    assert check_prefix(ours, {}) == ours


def test_a_file_a_file_above_and_a_dangling_link_are_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for path in ("file", "file/below", "dangling"):
        with pytest.raises(UsageError):
            check_prefix(tmp_path / path, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_an_unreadable_folder_is_a_file_system_error(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(FilesystemError):
        check_prefix(tmp_path / "closed/x", {})


def test_create_is_independent_of_the_umask_and_can_be_repeated(tmp_path, strict_umask):
    layout = Layout(tmp_path / "above/prefix")
    layout.create()
    layout.create()
    public = [tmp_path / "above", layout.prefix, layout.releases, layout.models, layout.etc]
    public += [layout.state, layout.journal, layout.receipts, layout.logs, layout.bin]
    assert {oct(mode(folder)) for folder in public} == {"0o755"}
    assert (mode(layout.run), mode(layout.cache)) == (0o700, 0o700)
    assert mode(layout.marker) == 0o644


def test_create_leaves_modes_that_the_administrator_chose(tmp_path):
    layout = Layout(tmp_path / "prefix")
    layout.create()
    layout.logs.chmod(0o750)
    layout.create()
    assert mode(layout.logs) == 0o750


def test_a_create_that_was_killed_before_the_marker_can_be_repeated(tmp_path):
    layout = Layout(tmp_path / "prefix")
    layout.state.mkdir(parents=True)
    assert check_prefix(layout.prefix, {}) == layout.prefix


def test_create_below_a_file_is_an_error_without_a_traceback(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FilesystemError, match="file"):
        Layout(tmp_path / "file/prefix").create()


def test_current_release_follows_the_link(tmp_path):
    layout = Layout(tmp_path)
    assert layout.current_release() == ""
    layout.current.symlink_to("releases/abc-123")
    assert layout.current_release() == "abc-123"


def test_api_key_is_made_once_and_private(tmp_path):
    before = os.umask(0)
    try:
        key = apikey.ensure(tmp_path / "api-key")
    finally:
        os.umask(before)
    assert len(key) >= 32
    assert mode(tmp_path / "api-key") == 0o600
    assert apikey.ensure(tmp_path / "api-key") == key
    assert [item.name for item in tmp_path.iterdir()] == ["api-key"]


@pytest.mark.parametrize(
    ("content", "permissions", "why"),
    [
        (b"", 0o600, "does not hold a key"),
        (b"short", 0o600, "does not hold a key"),
        (b"a key with spaces in it", 0o600, "does not hold a key"),
        (b"0123456789abcdef\nX-Header: 1", 0o600, "does not hold a key"),
        (b"\xff" * 40, 0o600, "does not hold a key"),
        (b"0123456789abcdef\n", 0o640, "others may read it"),
        (b"0123456789abcdef\n", 0o604, "others may read it"),
    ],
)
def test_unusable_api_keys(tmp_path, content, permissions, why):
    path = tmp_path / "api-key"
    path.write_bytes(content)
    path.chmod(permissions)
    with pytest.raises(UsageError) as caught:
        apikey.read(path)
    assert why in caught.value.why
    assert "0123456789abcdef" not in caught.value.render()


def test_a_missing_api_key_names_the_mend(tmp_path):
    with pytest.raises(UsageError) as caught:
        apikey.read(tmp_path / "api-key")
    assert "bundlectl start" in caught.value.mend
