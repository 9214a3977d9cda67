import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bundler import media
from manifests import audit
from manifests.errors import FilesystemError, IntegrityError, UsageError
from tests.support.simulator import Simulator
from tests.support.small import environment

MEMBERS = tuple(Simulator().contents())


def write(output, **changes):
    """Write the simulated bundle with other contents for some members."""
    simulator = Simulator()
    openers = {path: media.bytes_opener(data) for path, data in simulator.contents().items()}
    folder = output / simulator.name
    media.write(folder, simulator.manifest(), {**openers, **changes}, lambda count: None)
    return folder


def test_a_bundle_is_intact_and_made_with_plain_modes(tmp_path):
    old = os.umask(0o077)
    try:
        folder = write(tmp_path / "made" / "on the way")
    finally:
        os.umask(old)
    assert audit.audit(folder, lambda count: None).intact
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"install.sh": 0o755, "SHA256SUMS": 0o644, f"{folder.name}.tar": 0o644}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_no_placeholder_is_left_in_the_installer(tmp_path):
    text = (write(tmp_path) / "install.sh").read_text()
    for name in ("ARCHIVE", "MANIFEST_SHA256", "RUNTIME_SHA256", "RUNTIME_SIZE", "GLIBC"):
        assert f"@{name}@" not in text


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"X" + data[1:]]
)
def test_bytes_that_are_not_the_manifest_s(tmp_path, member, change):
    data = Simulator().contents()[member]
    with pytest.raises(IntegrityError) as caught:
        write(tmp_path / "media", **{member: media.bytes_opener(change(data))})
    assert member in caught.value.what
    assert not (tmp_path / "media").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EIO])
def test_a_source_or_disk_that_fails(tmp_path, code):
    def fail():
        yield memoryview(b"begun")
        raise OSError(code, os.strerror(code))

    (tmp_path / "mine").write_text("")
    with pytest.raises(FilesystemError) as caught:
        write(tmp_path, **{MEMBERS[1]: fail})
    assert str(tmp_path) in caught.value.what
    assert os.strerror(code) in caught.value.what
    assert caught.value.mend
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_ctrl_c_leaves_nothing(tmp_path):
    def interrupted():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "media", **{MEMBERS[1]: interrupted})
    assert list(tmp_path.iterdir()) == []


def test_the_old_bundle_stays_until_the_new_one_is_whole(tmp_path):
    folder = write(tmp_path)
    before = (folder / "SHA256SUMS").read_bytes()
    with pytest.raises(IntegrityError):
        write(tmp_path, **{MEMBERS[-1]: media.bytes_opener(b"")})
    assert (folder / "SHA256SUMS").read_bytes() == before
    write(tmp_path)
    assert audit.audit(folder, lambda count: None).intact


def test_two_writers_of_one_name(tmp_path):
    def second():
        with pytest.raises(UsageError, match="another `bundle` is writing there") as caught:
            write(tmp_path)
        assert "wait until it has ended" in caught.value.mend
        yield memoryview(Simulator().contents()[MEMBERS[1]])

    folder = write(tmp_path, **{MEMBERS[1]: second})
    assert audit.audit(folder, lambda count: None).intact


def test_what_a_killed_writer_left_is_cleared_away(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from tests.unit.test_bundler_media import MEMBERS, write\n"
        "def die():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "    yield\n"
        "write(Path(sys.argv[1]), **{MEMBERS[1]: die})"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment(), check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".partial")
    folder = write(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert audit.audit(folder, lambda count: None).intact


def test_an_output_that_does_not_exist_is_looked_at_and_not_made(tmp_path):
    media.check_output(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_output_with_too_little_room(tmp_path):
    with pytest.raises(FilesystemError, match="bytes are free, the bundle takes") as caught:
        media.check_output(tmp_path / "a", 1 << 60)
    assert "--output" in caught.value.mend


@pytest.mark.parametrize("place", ["file", "file/below", "file/below/deep"])
def test_a_file_in_the_place_of_the_output(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(FilesystemError, match="file: Not a directory"):
        media.check_output(tmp_path / place)


def test_a_new_name_is_free(tmp_path):
    media.check_new(tmp_path / "new", force=False)
    media.check_new(tmp_path / "new", force=True)


def test_force_replaces_a_bundle(tmp_path):
    folder = write(tmp_path)
    (folder / "SHA256SUMS.sig").write_text("")
    (folder / "x.tar.000").write_text("")
    with pytest.raises(UsageError, match="exists already"):
        media.check_new(folder, force=False)
    media.check_new(folder, force=True)


def _stranger(folder: Path) -> None:
    (folder / "thesis.tex").write_text("")


def _without_sums(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()


def _linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def _file(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("")


def _dangling(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("nowhere")


@pytest.mark.parametrize("change", [_stranger, _without_sums, _linked, _file, _dangling])
def test_force_replaces_nothing_else(tmp_path, change):
    folder = write(tmp_path)
    change(folder)
    with pytest.raises(UsageError, match="is not a bundle"):
        media.check_new(folder, force=True)
