import dataclasses
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bundler import media
from manifests import audit, bundle
from manifests.errors import FilesystemError, IntegrityError, UsageError
from tests.support.simulator import Simulator
from tests.support.small import environment

MEMBERS = tuple(Simulator().contents())
NAME = Simulator().name


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


def failing(error):
    """A source that gives wrong bytes, and then fails."""

    def fail(start):
        yield memoryview(b"begun")
        raise error

    return fail


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_source_or_disk_that_fails(tmp_path, code):
    (tmp_path / "mine").write_text("")
    with pytest.raises(FilesystemError) as caught:
        write(tmp_path, **{MEMBERS[1]: failing(OSError(code, os.strerror(code)))})
    assert str(tmp_path) in caught.value.what
    assert os.strerror(code) in caught.value.what
    assert caught.value.mend
    assert names(tmp_path) == [f".{NAME}.partial", "mine"]
    assert f".{NAME}.partial keeps" in caught.value.why
    assert "a re-run continues" in caught.value.why
    folder = write(tmp_path)
    assert names(tmp_path) == ["mine", NAME]
    assert audit.audit(folder, lambda count: None).intact


def test_files_that_this_disk_will_never_hold(tmp_path):
    with pytest.raises(FilesystemError) as caught:
        write(tmp_path / "media", **{MEMBERS[1]: failing(OSError(errno.EFBIG, "too large"))})
    assert not caught.value.why
    assert names(tmp_path) == []


def test_an_interrupt_before_the_first_byte_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle.Manifest, "dump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "media")
    assert names(tmp_path) == []


def counting(taken):
    """Openers of the simulated bundle that note what was asked of them: member → (start, bytes)."""

    def opener(path, data):
        def read(start):
            taken[path] = (start, len(data) - start)
            yield memoryview(data)[start:]

        return read

    return {path: opener(path, data) for path, data in Simulator().contents().items()}


def interrupted_at(output, member):
    """Write until half of a member is there; gives the partial folder."""
    data = Simulator().contents()[member]

    def half(start):
        yield memoryview(data)[: len(data) // 2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(output, **{member: half})
    return output / f".{NAME}.partial"


@pytest.mark.parametrize("number", range(len(MEMBERS)))
def test_only_the_rest_is_taken_from_the_sources(tmp_path, number):
    member = MEMBERS[number]
    whole = write(tmp_path / "whole")
    interrupted_at(tmp_path, member)
    taken, done = {}, []
    folder = tmp_path / NAME
    media.write(folder, Simulator().manifest(), counting(taken), done.append)
    size = len(Simulator().contents()[member])
    assert taken == {
        member: (size // 2, size - size // 2),
        **{later: (0, len(Simulator().contents()[later])) for later in MEMBERS[number + 1 :]},
    }
    assert sum(done) == sum(map(len, Simulator().contents().values()))
    assert names(folder) == names(whole)
    for path in whole.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
        assert (folder / path.name).stat().st_mode == path.stat().st_mode


@pytest.mark.parametrize("member", MEMBERS)
def test_a_flipped_byte_in_what_was_kept(tmp_path, member):
    """Wherever it is, that member is taken again, and no more than what follows it."""
    whole = (write(tmp_path / "whole") / f"{NAME}.tar").read_bytes()
    content = Simulator().contents()
    partial = interrupted_at(tmp_path, MEMBERS[-1])
    path = partial / f"{NAME}.tar"
    data = bytearray(path.read_bytes())
    data[whole.index(content[member])] ^= 1
    path.write_bytes(data)
    taken, done = {}, []
    media.write(tmp_path / NAME, Simulator().manifest(), counting(taken), done.append)
    assert set(MEMBERS[MEMBERS.index(member) :]) <= set(taken)
    assert all(taken[later][0] == 0 for later in MEMBERS[MEMBERS.index(member) :])
    assert sum(done) == sum(map(len, content.values()))
    assert (tmp_path / NAME / f"{NAME}.tar").read_bytes() == whole


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_anything_in_the_partial_folder_ends_in_the_same_bundle(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("kept")
    folder = write(root / "whole")
    whole = (folder / f"{NAME}.tar").read_bytes()
    end = data.draw(st.integers(0, len(whole)))
    kept = bytearray(whole[:end])
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=2)):
        if place < end:
            kept[place] ^= 1 << data.draw(st.integers(0, 7))
    kept += data.draw(st.binary(max_size=3))
    partial = root / f".{NAME}.partial"
    partial.mkdir()
    (partial / f"{NAME}.tar").write_bytes(kept)
    (partial / data.draw(st.sampled_from(["install.sh", "SHA256SUMS", "x.tar.001"]))).write_text("")
    write(root)
    assert names(root / NAME) == names(folder)
    assert (root / NAME / f"{NAME}.tar").read_bytes() == whole


def test_a_part_of_another_bundle_is_thrown_away(tmp_path):
    interrupted_at(tmp_path, MEMBERS[-1])
    taken = {}
    manifest = dataclasses.replace(Simulator().manifest(), sequence=2)
    media.write(tmp_path / NAME, manifest, counting(taken), lambda count: None)
    assert [start for start, _ in taken.values()] == [0] * len(MEMBERS)
    assert audit.audit(tmp_path / NAME, lambda count: None).intact


def test_a_link_in_the_partial_folder_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    partial = tmp_path / f".{NAME}.partial"
    partial.mkdir()
    (partial / f"{NAME}.tar").symlink_to(precious)
    folder = write(tmp_path)
    assert precious.read_text() == "kept"
    assert audit.audit(folder, lambda count: None).intact


def test_a_source_that_changed_is_blamed_after_it_was_asked_for_all(tmp_path):
    member = MEMBERS[-1]
    interrupted_at(tmp_path, member)
    other = Simulator().contents()[member][:-1] + b"X"
    with pytest.raises(IntegrityError, match="changed while the bundle was made"):
        write(tmp_path, **{member: media.bytes_opener(other)})
    assert names(tmp_path) == []


def test_the_old_bundle_stays_until_the_new_one_is_whole(tmp_path):
    folder = write(tmp_path)
    before = (folder / "SHA256SUMS").read_bytes()
    with pytest.raises(IntegrityError):
        write(tmp_path, **{MEMBERS[-1]: media.bytes_opener(b"")})
    assert (folder / "SHA256SUMS").read_bytes() == before
    write(tmp_path)
    assert audit.audit(folder, lambda count: None).intact


def test_two_writers_of_one_name(tmp_path):
    def second(start):
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
        "def die(start):\n"
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
